// The program whose instructions are counted: `node codec.cjs WHAT SIZE ROUNDS` encodes or decodes ROUNDS times 4096 packets of SIZE readings,
// every value changing, and nothing else.
const { createNativeChecks, createNativeCore, createPureCore, Receiver, ucumUnits } = require('../../dist/os-node.js')

const [what, size, rounds] = process.argv.slice(2)
const COUNT = 4096
const BATCH = 256
const AID = 0x00010203
const T0 = 1_710_000_000_000
const options = { resolver: ucumUnits, units: ucumUnits, precision: 4 }

const rows = Array.from({ length: COUNT }, (_, k) =>
  Array.from({ length: Number(size) }, (_, i) => [
    `s${i}`,
    'OK',
    20 + ((k * 7919 + i * 104_729) % 100_003) / 1e4,
    'Cel',
  ]),
)
const core = what === 'encode_batch256' ? createNativeCore(options) : createPureCore(options)
let t = T0
const encode = row => core.transmitFast(row, 'bench', 'ONLINE', t++, AID, 'DIFF')
const slab = Buffer.alloc(1 << 20)
const ends = new Int32Array(BATCH)

function batches() {
  for (let k = 0; k < COUNT; k += BATCH) {
    for (let i = k; i < k + BATCH; i++) core.stage(rows[i], 'bench', 'ONLINE', t++, AID, 'DIFF')
    core.takeInto(slab, 0, ends)
  }
}

/** Each round has a receiver that has not seen the packets, with the checksums on the native core or not. */
function decoding(checks) {
  const packets = rows.map(encode)
  const parts = []
  for (let k = 0; k < COUNT; k += BATCH) {
    const part = packets.slice(k, k + BATCH)
    let end = 0
    parts.push({ bytes: Buffer.concat(part), ends: Int32Array.from(part, packet => (end += packet.length)) })
  }
  let facts = 0
  const sink = { fact: () => facts++, other: (_, got) => (facts += got.kind === 'fact' ? 1 : 0) }
  return () => {
    facts = 0
    const receiver = new Receiver(checks ? { units: ucumUnits, checks } : { units: ucumUnits })
    if (checks) for (const part of parts) receiver.receiveBatch(part.bytes, part.ends, part.ends.length, sink)
    else for (const packet of packets) if (receiver.receive(packet).kind === 'fact') facts++
    if (facts !== COUNT) throw new Error(`${facts} of ${COUNT} packets were decoded`)
  }
}

const RUNS = {
  encode: () => () => rows.forEach(encode),
  encode_batch256: () => batches,
  decode: () => decoding(null),
  decode_batch256: () => decoding(createNativeChecks()),
}
const run = RUNS[what]()
for (let k = 0; k < Number(rounds); k++) run()
