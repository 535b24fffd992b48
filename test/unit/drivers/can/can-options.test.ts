// Options of the CAN medium: ids in both spellings; lists of peers that cannot work are refused with the reason.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { canDriver } from '../../../../drivers/can'
import { canOptions } from '../../../../drivers/can/can-options'
import { complaint, stateOf } from '../../../../drivers/can/errors'
import { settingsOf } from '../../../../drivers/can/medium'
import { silentLogger } from '../../../../src/lib/logger'
import { checkOptions } from '../../../../src/links/driver-options'
import type { CanLink } from '../../../../src/native/can-link'
import { ManualClock } from '../../../lib/manual'

const make = (options: Record<string, unknown>) =>
  canDriver.create('bus', options, { clock: new ManualClock(0), logger: silentLogger })
const refused = (options: Record<string, unknown>, message: RegExp, key?: string, code = 'CONFIG_INVALID'): void => {
  assert.throws(
    () => make(options),
    (error: { code: string; message: string; details: { keys: string[] } }) => {
      assert.equal(error.code, code)
      assert.match(error.message, message)
      if (key !== undefined) assert.deepEqual(error.details.keys, [key])
      return true
    },
  )
}
const peer = (tx_id: number | string, rx_id: number | string, more = {}) => ({ tx_id, rx_id, ...more })

test('a peer alone is enough; 4095 bytes fit one packet', () => {
  const medium = make({ peers: [peer('0x7E0', 2024)] })
  assert.deepEqual([medium.name, medium.medium, medium.maxPacket], ['bus', 'CAN', 4095])
})

test('the socket of a peer is opened with the options of that peer', () => {
  const isotp = (more: object): object => {
    const options = checkOptions(canOptions, { interface: 'vcan9', peers: [peer(1, 0x7ff, more)] }, 'bus')
    return settingsOf(options.peers[0]!, options).isotp
  }
  assert.deepEqual(isotp({}), { txId: 1, rxId: 0x7ff, blockSize: 0, stMin: 0 })
  assert.deepEqual(isotp({ padding: 0, separation_us: 300 }), {
    ...{ txId: 1, rxId: 0x7ff, blockSize: 0 },
    ...{ stMin: 0xf3, padding: 0 },
  })
  const fd = isotp({ fd: true, frame_bytes: 32, brs: false, block_size: 3, separation_us: 2000, rx_id: 0x800 })
  const ids = { txId: 1 + 0x8000_0000, rxId: 0x800 + 0x8000_0000 }
  assert.deepEqual(fd, { ...ids, fd: { dataBytes: 32, brs: false }, blockSize: 3, stMin: 2 })
})

test('keys of the gateway that this medium does not use are allowed', () => {
  make({ peers: [peer(1, 2)], host: undefined, port: undefined, delivery: 'auto', full_every: 5 })
})

test('without a clear destination the options are refused', () => {
  const peers = [peer(1, 2, { aid: 7 }), peer(3, 4, { aid: 8 })]
  refused({}, /peers: at least one is needed, with its tx_id and rx_id/, 'peers')
  refused({ peers }, /set the aid of the one to send to/, 'peer')
  refused({ peers, peer: 9 }, /none of the peers has the aid 9/, 'peer')
  make({ peers, peer: 8 })
  make({ mode: 'listen', peers })
})

test('ids: numbers or hexadecimal text, within 29 bits, and 11 where ext is false', () => {
  for (const id of ['7E0', '0x', -1, 1.5, 0x2000_0000, '0x20000000', null])
    refused({ peers: [peer(id as never, 2)] }, /peers\.0\.tx_id/)
  refused({ peers: [peer(0x800, 2, { ext: false })] }, /an id above 0x7FF has 29 bits: leave ext out/)
  make({ peers: [peer(0x800, 2, { ext: true })] })
  make({ peers: [peer(0x1fff_ffff, 0)] })
})

test('id pairs that overlap are refused, with the two peers named', () => {
  const listen = (...peers: object[]) => ({ mode: 'listen', peers })
  refused(listen(peer(1, 1)), /peers\.0: tx_id and rx_id are the same/)
  refused(listen(peer(1, 2), peer(3, '0x2')), /peers\.0 and peers\.1 have the same rx_id/)
  refused(listen(peer(1, 2), peer(5, 6), peer(1, 4)), /peers\.0 and peers\.2 have the same tx_id/)
  refused(listen(peer(1, 2), peer(2, 3)), /peers\.0 and peers\.1 would hear each other/)
  refused(listen(peer(1, 2, { aid: 5 }), peer(3, 4, { aid: 5 })), /have the same aid/)
})

test('unknown and invalid settings of a peer are refused by name', () => {
  refused({ peers: [peer(1, 2, { txid: 3 })] }, /peers\.0\.txid/, undefined, 'UNKNOWN_KEY')
  refused({ peers: [peer(1, 2, { padding: 256 })] }, /peers\.0\.padding/)
  refused({ peers: [peer(1, 2, { frame_bytes: 10 })] }, /peers\.0\.frame_bytes/)
  refused({ peers: [peer(1, 2, { separation_us: 250 })] }, /whole milliseconds, or 100 to 900/)
  make({ peers: [peer(1, 2, { separation_us: 5000, block_size: 8, padding: 0xcc, fd: true, frame_bytes: 32 })] })
  refused({ interface: 'a very long name of nothing', peers: [peer(1, 2)] }, /the name of an interface/)
})

test('error frames set the state of the bus', () => {
  const frame = (id: number, controller: number) => stateOf(id, Uint8Array.of(0, controller, 0, 0, 0, 0, 0, 0))
  assert.deepEqual(
    [frame(0x2000_0040, 0), frame(0x2000_0100, 0), frame(0x2000_0004, 0x10), frame(0x2000_0004, 0x20)],
    ['bus-off', 'error-active', 'error-passive', 'error-passive'],
  )
  assert.deepEqual(
    [frame(0x2000_0004, 0x08), frame(0x2000_0004, 0x40), frame(0x2000_0004, 0x01), frame(0x2000_0020, 0)],
    ['error-warning', 'error-active', undefined, undefined],
  )
  assert.equal(stateOf(0x2000_0004, new Uint8Array(0)), undefined)
})

test('the report of a bus names the counters, and what to do', () => {
  const link = { tx_errors: 128, rx_errors: 3, restart_ms: 100 } as CanLink
  assert.equal(complaint('can0', 'error-active', link), '')
  assert.equal(complaint('can0', 'unknown', link), '')
  assert.match(
    complaint('can0', 'error-passive', link),
    /error-passive \(transmit errors 128, receive errors 3\): check wiring/,
  )
  assert.equal(complaint('can0', 'bus-off', link), 'can0 is bus-off; the kernel restarts it after 100 ms')
  assert.match(
    complaint('can0', 'bus-off', { ...link, restart_ms: 0 }),
    /not restarted: ip link set can0 type can restart/,
  )
})
