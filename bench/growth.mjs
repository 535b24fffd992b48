// The cost of a packet as load grows: 1 to 64 readings in a packet, 1 to 20,000 devices that report in turn; the codec alone,
// without sockets and log. Every value changes, every packet is decoded and its first value compared. Runs only when it is named
// (`--only growth/`); `--plots DIR` writes growth-readings.svg and growth-devices.svg.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { plot } from './plot.mjs'

const READINGS = [1, 2, 4, 8, 16, 32, 64]
const DEVICES = [1, 10, 100, 1000, 5000, 20_000]
/** with fewer, the memory of one is lost in other variations */
const WEIGHED = 1000
const DEVICE_READINGS = 4
const PACKETS = 4096
const WINDOWS = 12
const T0 = 1_710_000_000_000
const UNITS = ['K', 'Pa', 'A', '%']

/** Plain literals: properties spread into an object are read ten times slower. */
const factOf = (device, k, size) => ({
  id: `node-${device}`,
  state: 'ONLINE',
  aid: 0x00020000 + device,
  tRaw: T0 + k,
  sensors: Array.from({ length: size }, (_, i) => ({
    id: `s${i}`,
    status: 'OK',
    unit: UNITS[i % UNITS.length],
    value: 250.001 + ((k * 7919 + i * 104_729) % 5003) / 100,
  })),
})

/** ns for each of `count`, the minimum of some runs; `fresh` is not measured. */
function nsOf(count, fresh, run) {
  let least = Number.POSITIVE_INFINITY
  for (let k = 0; k < WINDOWS; k++) {
    const state = fresh()
    const began = performance.now()
    run(state)
    least = Math.min(least, performance.now() - began)
  }
  return Math.round((least * 1e6) / count)
}

export function benchGrowth({ Receiver, UplinkEncoder, units }, { put, problems }, dir) {
  const encoderOf = aid => new UplinkEncoder({ aid, units, diffBase: 'last', fullEvery: 0, fullIntervalS: 0 })
  const receiver = () => new Receiver({ units, maxSources: 65_536, maxBytes: 1 << 30 })
  const series = { encode: [], decode: [], bytes: [], ns: [], memory: [] }
  const check = (got, fact) => {
    if (Math.abs((got.fact?.sensors[0].value ?? Number.NaN) - fact.sensors[0].value) > 1e-4 && problems.length < 5)
      problems.push(`growth: ${fact.id} decoded to ${JSON.stringify(got)}`)
  }
  for (const size of READINGS) {
    const facts = Array.from({ length: PACKETS }, (_, k) => factOf(0, k, size))
    const encoder = encoderOf(facts[0].aid)
    const packets = facts.map(fact => encoder.encode(fact).bytes)
    const all = receiver()
    for (const [k, packet] of packets.entries()) check(all.receive(packet), facts[k])
    const out = new Uint8Array(65_536)
    const encode = nsOf(
      PACKETS,
      () => encoderOf(facts[0].aid),
      one => {
        for (const fact of facts) one.encodeInto(fact, out, 0)
      },
    )
    const decode = nsOf(PACKETS, receiver, one => {
      for (const packet of packets) one.receive(packet)
    })
    const bytes = Math.round(packets.slice(1).reduce((sum, { length }) => sum + length, 0) / (PACKETS - 1))
    for (const [what, value] of Object.entries({ encode, decode, bytes })) {
      put(`growth/readings/${size}/${what}${what === 'bytes' ? '' : '_ns'}`, value)
      series[what].push([size, value])
    }
  }
  for (const devices of DEVICES) {
    const encoders = Array.from({ length: devices }, (_, k) => encoderOf(0x00020000 + k))
    const round = k => encoders.map((encoder, device) => encoder.encode(factOf(device, k, DEVICE_READINGS)).bytes)
    const first = round(0)
    const rounds = Array.from({ length: Math.ceil(20_000 / devices) }, (_, k) => round(k + 1))
    const known = () => {
      const one = receiver()
      for (const packet of first) one.receive(packet)
      return one
    }
    globalThis.gc()
    const before = process.memoryUsage()
    const kept = known()
    globalThis.gc()
    const after = process.memoryUsage()
    const memory = Math.round((after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers) / devices)
    const all = known()
    for (const [k, packets] of rounds.entries())
      for (const [device, packet] of packets.entries())
        check(all.receive(packet), factOf(device, k + 1, DEVICE_READINGS))
    const ns = nsOf(rounds.length * devices, known, one => {
      for (const packets of rounds) for (const packet of packets) one.receive(packet)
    })
    if (kept.sources !== devices) problems.push(`growth: ${kept.sources} of ${devices} devices are known`)
    put(`growth/devices/${devices}/decode_ns`, ns)
    series.ns.push([devices, ns])
    if (devices < WEIGHED) continue
    put(`growth/devices/${devices}/bytes_per_device`, memory)
    series.memory.push([devices, memory])
  }
  if (!dir) return
  writeFileSync(
    join(dir, 'growth-readings.svg'),
    plot('A packet of 1 to 64 readings, every value changing', 'readings in a packet', [
      ['encoded, ns', series.encode],
      ['decoded, ns', series.decode],
      ['DIFF, bytes', series.bytes],
    ]),
  )
  writeFileSync(
    join(dir, 'growth-devices.svg'),
    plot('1 to 20,000 devices of four readings that report in turn', 'devices', [
      ['decoded, ns a packet', series.ns],
      ['memory, bytes a device', series.memory],
    ]),
  )
}
