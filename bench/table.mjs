// The table of `npm run bench`: the figures by part, each with its reference and, where there is one, its gate.
import { PEERS, SIZES } from './peers.mjs'

const RATE = '/s'

/** parts in the order of printing: title, their keys, and the unit of their figures */
const PARTS = [
  [
    'Codec, one sensor or more (beside: the limit probe and other codecs on the same readings)',
    /^(probe|encode|encode_into|encode_batch256|transmit|transmit_batch|decode|uplink|peer(?!\/node-red))\//,
  ],
  [
    'Bytes, heap and instructions of a packet',
    /^(bytes_per_(?!reading\/mqtt)|peer_bytes|heap_bytes|instructions_per|medium)/,
  ],
  ['Cost as load grows: readings in a packet, devices that report in turn', /^growth\//],
  ['ID allocator, 100 000 ids in use', /^allocator\//],
  ['UDP out, packets of 40 bytes on the loopback', /^udp\/out\//],
  ['UDP in, decoded and logged by a gateway: the highest paced rate without loss', /^udp\/in\//],
  ['SPI register reads in the kernel rig, beside a plain C loop in the same boot', /^spi\//],
  ['A whole gateway and 20 000 nodes of six sensors, reporting in turn over UDP', /^nodes\//],
  ['Recovery: a backlog of 200 000 facts when the upstream comes back', /^recovery\//],
  ['Opening a log of 1 GiB after a kill, in a fresh process with an empty page cache', /^opening\//],
  ['The exchange both ways: through a gateway that receives and sends on, both acknowledged', /^exchange\//],
  ['MQTT QoS 1 through mosquitto', /^mqtt\//],
  ['Packets of four sensors from a log into the SQL view, and questions to a million of them', /^sql\//],
  ['Packets of four sensors from a log into PostgreSQL, the server on the same machine', /^postgresql\//],
  [
    'Flash: what a record costs an ext4 on a loop device, readings committed once a second, beside SQLite with the same ones',
    /^flash\//,
  ],
  ['A board of 15 % of a processor and 512 MB, 500 readings/s; a gateway as it comes in 128 MB', /^small_board\//],
  ['CAN frames on a virtual bus, in the rig', /^can\//],
  [
    'From a register read to the upstream: 40 Modbus registers at 1 s, defaults, and what it costs',
    /^(latency|flash_bytes_per_reading|wakeups_per_s|gateway|bytes_per_reading\/mqtt|peer\/node-red)\//,
  ],
  [
    'A gateway with nothing configured: its start beside `node -e 0`, its memory and what it takes at rest',
    /^(start|memory|idle)\//,
  ],
]

/** The unit of a figure by its key. */
function unit(key) {
  if (/_percent$/.test(key)) return '%'
  if (/_ms_per_reading\//.test(key)) return 'ms'
  if (/_ms($|\/)/.test(key)) return 'ms'
  if (/_mb$/.test(key)) return 'MB'
  if (/seconds$/.test(key)) return 's'
  if (/bytes/.test(key)) return 'B'
  if (/(sectors|flushes)_per_record/.test(key)) return ''
  if (/_ns$/.test(key)) return 'ns'
  if (/_us$/.test(key)) return 'µs'
  if (/us_per_packet$/.test(key)) return 'µs'
  if (/_times$/.test(key)) return '×'
  if (/(lost|refused|sent_twice|syscalls_per_packet)$|^instructions_per_packet\//.test(key)) return ''
  return RATE
}

/** The keys of the figures it is shown as a multiple of. */
function against(key) {
  const [what, how, third, size] = key.split('/')
  if (what === 'encode' || what === 'encode_into' || what === 'uplink') return [`probe/${how}/${third}`]
  if (what === 'encode_batch256') return [`encode/${how}/${third}/pycore`]
  if (what === 'transmit_batch') return [`transmit/${how}/${third}/rscore`]
  if (what === 'decode' && size === 'rscore' && how === 'diff')
    return ['msgpackr', 'cbor-x'].map(name => `peer/${name}/decode/${third}`)
  if (what === 'decode') return [`encode/${how}/${third}/pycore`]
  if (how === 'node-red') return [`gateway/${third}/${size}`]
  if (what === 'peer' && third === 'decode') return ['pycore', 'rscore'].map(core => `decode/diff/${size}/${core}`)
  if (what === 'peer') return [`${third}/diff/${size}/pycore`]
  if (what === 'peer_bytes') return [`bytes_per_packet/diff/${third}`]
  if (/^udp\/out\/\w+\/(send|batch)$/.test(key)) return ['udp/out/dgram']
  if (key === 'can/in/class') return ['can/in/candump']
  if (key === 'can/out/class') return ['can/out/cangen']
  if (key === 'mqtt/committed/qos1') return ['mqtt/puback/qos1']
  return []
}

const PEER_KEYS = [
  ...PEERS.flatMap(name =>
    SIZES.flatMap(size => [`peer/${name}/encode/${size}`, `peer/${name}/decode/${size}`, `peer_bytes/${name}/${size}`]),
  ),
  ...['cpu_ms_per_reading/40', 'cpu_ms_per_reading/400', 'cpu_ms_per_reading/max', 'readings_per_s/max'].map(
    figure => `peer/node-red/${figure}`,
  ),
]

/** A mark of the comparison at 40 readings/s for which the peer has no figure: its JSON goes by UDP. */
const AT_40 = { key: 'peer/node-red/cpu_ms_per_reading/40', also: 'bytes_per_reading/mqtt/40' }

/** Where these prefixes name a figure of a peer: the keys of our figures next to it, which are measured with it. */
export const partners = prefixes =>
  PEER_KEYS.filter(key => prefixes.some(prefix => key.startsWith(prefix))).flatMap(key =>
    key === AT_40.key ? [...against(key), AT_40.also] : against(key),
  )

const number = value =>
  Math.abs(value) >= 1000
    ? Math.round(value)
        .toString()
        .replace(/\B(?=(\d{3})+$)/g, ' ')
    : String(value)

/** `notes`: key → note after the figure (its gate or target). Prints to stdout. */
export function printTable(results, notes) {
  const left = new Set(Object.keys(results))
  for (const [title, belongs] of [...PARTS, ['Others', /./]]) {
    const keys = [...left].filter(key => belongs.test(key))
    if (keys.length === 0) continue
    console.log(`\n${title}`)
    for (const key of keys) {
      left.delete(key)
      const ratios = against(key)
        .filter(other => results[other])
        .map(other => `${(results[key] / results[other]).toFixed(2)} × ${other}`)
      const text = [...ratios, notes.get(key)].filter(Boolean).join(', ')
      console.log(`  ${key.padEnd(46)} ${number(results[key]).padStart(13)} ${unit(key).padEnd(3)} ${text}`.trimEnd())
    }
  }
}
