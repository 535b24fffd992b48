#!/usr/bin/env node
// `node bench/nodes.mjs [--nodes N] [--rounds N] [--memory BYTES]`: many nodes report in turn to one receiver, six sensors
// each, every value changing, without key frames, so that a template that were lost would show as a refusal. Printed:
// µs per packet, the longest packet, memory, and what went to files. Refusals and wrong values mean exit 1.
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const require = createRequire(import.meta.url)
const { Receiver, ucumUnits: units, UplinkEncoder } = require('../dist/os-node.js')

const option = (name, standard) =>
  process.argv.includes(name) ? Number(process.argv[process.argv.indexOf(name) + 1]) : standard
const nodes = option('--nodes', 20_000)
const rounds = option('--rounds', 12)
const maxBytes = option('--memory', 32 << 20)
const T0 = 1_710_000_000_000
const UNITS = ['K', 'Pa', 'A', '%', 'm', 'V']

const value = (aid, k, i) => 290 + i + (aid % 1000) / 10 + ((k * 7 + i * 3 + aid) % 50) / 100
/** One node's frames of all rounds. */
function frames(aid) {
  const encoder = new UplinkEncoder({ aid, units, diffBase: 'last', fullEvery: 1e9, fullIntervalS: 1e9 })
  return Array.from({ length: rounds }, (_, k) => {
    const sensors = UNITS.map((unit, i) => ({ id: `sensor_${i}`, status: 'OK', unit, value: value(aid, k, i) }))
    return encoder
      .encode({ id: `node-${aid}`, state: 'ONLINE', tRaw: T0 + 60_000 * k + aid, aid, sensors })
      .bytes.slice()
  })
}

const all = Array.from({ length: nodes }, (_, n) => frames(n + 1))
const dir = mkdtempSync(join(tmpdir(), 'os-node-nodes-'))
global.gc?.()
const used = () => {
  global.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
const before = used()
const rssBefore = process.memoryUsage().rss
const receiver = new Receiver({ units, maxBytes, spillDir: join(dir, 'spill') })
let refused = 0
let wrong = 0
let longest = 0
let steady = 0
const written = () => receiver.spill.counters.bytes_written
let writtenBefore = 0
for (let k = 0; k < rounds; k++) {
  if (k === 2) writtenBefore = written()
  const start = performance.now()
  for (let n = 0; n < nodes; n++) {
    const at = performance.now()
    const got = receiver.receive(all[n][k])
    const took = performance.now() - at
    if (k > 0 && took > longest) longest = took
    if (got.kind !== 'fact') refused++
    else for (let i = 0; i < 6; i++) if (Math.abs(got.fact.sensors[i].value - value(n + 1, k, i)) > 6e-5) wrong++
  }
  if (k >= 2) steady += performance.now() - start
}
const packets = nodes * Math.max(1, rounds - 2)
const { spill } = receiver
const rss = process.memoryUsage().rss - rssBefore
const kept = used() - before
const perPacket = (written() - writtenBefore) / packets
const state = `in use ${receiver.sources}, packed ${spill.size}; in memory ${spill.memory >> 10} KiB, in files ${spill.disk >> 10} KiB`
const stopAt = performance.now()
receiver.save()
const stop = performance.now() - stopAt
console.log(`${nodes} nodes x 6 sensors, ${rounds} rounds, ${(maxBytes / 1048576).toFixed(0)} MiB for templates`)
console.log(`  ${((steady * 1000) / packets).toFixed(1)} µs a packet, the longest ${longest.toFixed(1)} ms`)
console.log(
  `  kept ${(kept / 1048576).toFixed(0)} MiB (RSS +${(rss / 1048576).toFixed(0)}); counted ${receiver.weight >> 20} MiB; ${state}`,
)
console.log(
  `  written ${perPacket.toFixed(0)} B a packet; refused ${refused}, wrong ${wrong}, lost ${spill.counters.lost}`,
)
console.log(`  clean stop ${stop.toFixed(0)} ms`)
rmSync(dir, { recursive: true, force: true })
process.exit(refused + wrong === 0 ? 0 : 1)
