// Options of links, right and wrong ones, that every driver of drivers-tables.test.ts gets.
const peers = [{ tx_id: 1, rx_id: 2 }]
export const raws = [
  {},
  { mode: 'listen', port: '/dev/ttyX', host: '127.0.0.1', address: '10.0.0.1' },
  { mode: 'send', port: '/dev/ttyX', host: '10.0.0.2', peer_address: '10.0.0.2', peers: ['a'] },
  { mode: 'listen', host: 'no address', address: '300.1.1.1', peers },
  { mode: 'send', host: '10.0.0.2', port: 7, mtu: 200, peers },
  ...['master', 'slave', 'point_to_point'].map(role => ({
    role,
    port: 'x',
    address: 3,
    slaves: [{ address: 4, aid: 9 }],
  })),
  {
    address: 'a4:c1:38:8d:18:b2',
    uuid: 'e2c56db5dffb48d2b060d0f5a71096e0',
    slave: 3,
    registers: [{ id: 'a', address: 1 }],
    port: 'x',
  },
  {
    pins: [{ pin: 'GPIO4' }],
    bus: 1,
    chip: 'bme280',
    dbc: '/x',
    match: ['*'],
    patterns: ['(?<a>\\d)'],
    lines: ['x'],
  },
]
