#!/usr/bin/env node
// The simulated world: `npm run test:sim -- [--seeds N] [--first N] [--hours H] …` (docs/simulation.md). Builds the image and the world, and runs
// one seed after the other in two worker processes. One seed in twenty runs twice, and its traces must be equal. A failing seed is shrunk: faults
// are left out as long as it still fails; the command that runs the remaining ones is printed. Status 1 then. A process that ends fails its seed.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { buildImage, buildWorld, root } from './build.mjs'
import { seedProcess, shrink } from './shrink.mjs'
import { VARIANTS } from './variants.mjs'

const HELP = `npm run test:sim -- [options]

  --seeds N     how many seeds (default 100)
  --first N     the first of them (default 1)
  --hours H     simulated time with faults, of each seed (default 0.1)
  --mode MODE   strict or lying: what the syncs of the disks do; left out: as each seed draws
  --media LIST  of the uplinks, best first: MQTT,UDP; left out: as each seed draws
  --sql         with a SQL view at the upstream; left out: as each seed draws
  --aim NAME    each seed has this situation: last, repeat, full, ports, clock, upstream or adopt (test/sim/plan.ts)
  --relays      a gateway sends to another gateway, which passes it on; left out: as each seed draws
  --ids         gateways request their ids; left out: each has one by its configuration
  --core NAME   which core the gateways choose for uplinks and receivers: pycore (default) or rscore, with the same traces;
                both: rscore for every third seed
  --apart       each start of a process evaluates the gateway's text anew: twice as slow, with the same traces
  --twice       each seed runs once with the text shared and once with texts apart, and the two traces must be the same
  --workers N   processes (default 2)
  --keep LIST   only these faults of the plan, by number: 3,7 (one seed)
  --trace       print every event (one seed)
  --said        print what the gateways log (one seed)
  --faults      print the plan (one seed)
  --variant ID  with this fault built in; "list" prints them
`
const { values: options } = parseArgs({
  options: {
    seeds: { type: 'string', default: '100' },
    first: { type: 'string', default: '1' },
    hours: { type: 'string', default: '0.1' },
    mode: { type: 'string' },
    media: { type: 'string' },
    sql: { type: 'boolean' },
    aim: { type: 'string' },
    relays: { type: 'boolean' },
    ids: { type: 'boolean' },
    core: { type: 'string', default: 'pycore' },
    apart: { type: 'boolean' },
    twice: { type: 'boolean' },
    workers: { type: 'string', default: '2' },
    keep: { type: 'string' },
    trace: { type: 'boolean' },
    said: { type: 'boolean' },
    faults: { type: 'boolean' },
    variant: { type: 'string' },
    help: { type: 'boolean' },
  },
})
if (options.help) {
  console.log(HELP)
  process.exit(0)
}
if (options.variant === 'list') {
  for (const { id, what } of VARIANTS) console.log(`${id.padEnd(28)} ${what}`)
  process.exit(0)
}
const number = (name, least) => {
  const value = Number(options[name])
  if (Number.isFinite(value) && value >= least) return value
  console.error(`--${name} takes a number from ${least} on, not ${options[name]}`)
  process.exit(2)
}
const [seeds, first, hours, workers] = [
  number('seeds', 1),
  number('first', 0),
  number('hours', 0.01),
  number('workers', 1),
]
const variant = VARIANTS.find(({ id }) => id === options.variant)
if (options.variant && !variant) {
  console.error(`no variant ${options.variant}; --variant list prints them`)
  process.exit(2)
}

/** One seed in so many runs twice, once of them with texts apart. */
const TWICE = 20
/** with `--core both` */
const RSCORE = 3

const dir = mkdtempSync(join(root, '.build/sim-'))
process.on('exit', () => rmSync(dir, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130))
const [worldFile, imageFile] = [join(dir, 'world.cjs'), join(dir, 'image.js')]
await buildWorld(worldFile)
writeFileSync(imageFile, await buildImage(variant?.patches))

const media = options.media?.split(',')
if (media?.some(name => !['UDP', 'TCP', 'MQTT', 'UART'].includes(name))) {
  console.error(`--media takes UDP, TCP, MQTT and UART, not ${options.media}`)
  process.exit(2)
}
if (options.mode && !['strict', 'lying'].includes(options.mode)) {
  console.error(`--mode takes strict or lying, not ${options.mode}`)
  process.exit(2)
}
if (options.aim && !['last', 'repeat', 'full', 'ports', 'clock', 'upstream', 'adopt'].includes(options.aim)) {
  console.error(`--aim takes last, repeat, full, ports, clock, upstream or adopt, not ${options.aim}`)
  process.exit(2)
}
if (!['pycore', 'rscore', 'both'].includes(options.core)) {
  console.error(`--core takes pycore, rscore or both, not ${options.core}`)
  process.exit(2)
}
const common = {
  hours,
  ...(options.mode && { mode: options.mode }),
  ...(media && { media }),
  ...(options.sql && { sql: true }),
  ...(options.aim && { aim: options.aim }),
  ...(options.relays && { relays: true }),
  ...(options.ids && { ids: true }),
  ...(options.apart && { apart: true }),
}
const isRscore = seed => options.core === 'rscore' || (options.core === 'both' && seed % RSCORE === 0)
const ordered = seed => ({ seed, ...common, ...(isRscore(seed) && { rscore: true }) })
const command = (seed, keep, differs) =>
  `npm run test:sim -- --seeds 1 --first ${seed}${hours === 0.1 ? '' : ` --hours ${hours}`}${options.mode ? ` --mode ${options.mode}` : ''}${media ? ` --media ${media}` : ''}${options.sql ? ' --sql' : ''}${options.aim ? ` --aim ${options.aim}` : ''}${options.relays ? ' --relays' : ''}${options.ids ? ' --ids' : ''}${isRscore(seed) ? ' --core rscore' : ''}` +
  `${options.apart ? ' --apart' : ''}${differs ? ' --twice' : ''}${variant ? ` --variant ${variant.id}` : ''}${keep ? ` --keep ${keep.join() || 'none'}` : ''}`

/** Shrinks a failing seed in a process of its own, and prints the command that runs the remaining faults. */
async function tellShrunk(seed, differs) {
  const runner = seedProcess(worldFile, imageFile)
  const small = await shrink(keep => runner.run({ ...ordered(seed), twice: differs, ...(keep && { keep }) }))
  runner.end()
  console.log(
    small
      ? `seed ${seed} shrunk to ${small.keep.length} of ${small.of}: ${command(seed, small.keep, differs)}\n${small.failure}`
      : `seed ${seed} holds at the second run`,
  )
}

/** Committed readings that a disk without syncs lost. */
const lied = counts => (counts.lied > 0 ? `, ${counts.lied} lost by disks that lie` : '')

const tell = ({ seed, failure, hash, ms, events, packets, starts, counts, settled, plan, faults }) => {
  console.log(
    `seed ${seed} ${failure === undefined ? 'holds' : 'BROKEN'} hash ${hash} ${plan.diskMode} ${(ms / 60_000).toFixed(1)} min, ` +
      `${plan.gateways} gateways, ${faults.length} faults, ${starts} starts, ${events} events, ${packets} packets, ` +
      `${counts.readings} readings, ${counts.arrived} arrived, ${counts.dropped} dropped${lied(counts)}, in step after ${(settled / 1000).toFixed(0)} s`,
  )
}

if (seeds === 1) {
  const keep = options.keep?.split(',').filter(Boolean).map(Number).filter(Number.isInteger)
  const { twice = false, trace = false, said = false } = options
  const runner = seedProcess(worldFile, imageFile)
  const result = await runner.run({ ...ordered(first), twice, ...(keep && { keep }), trace, said })
  runner.end()
  if (options.faults && result.plan) console.log(JSON.stringify(result.plan, null, 1))
  if (options.faults) for (const [k, fault] of result.faults?.entries() ?? []) console.log(k, JSON.stringify(fault))
  if (result.ended) console.log(`seed ${first} BROKEN`)
  else tell(result)
  if (result.failure !== undefined) console.log(result.failure)
  if (result.failure !== undefined && !keep) await tellShrunk(first, result.differs)
  process.exit(result.failure === undefined ? 0 : 1)
}

const started = performance.now()
let next = first
const end = first + seeds
const failed = []
const total = {
  seeds: 0,
  ms: 0,
  events: 0,
  packets: 0,
  starts: 0,
  faults: 0,
  readings: 0,
  arrived: 0,
  dropped: 0,
  lied: 0,
  slowest: 0,
  twice: 0,
}
/** of the traces, by seed */
const hashes = []

/** Gives one process seeds until there are no more. */
async function work() {
  const runner = seedProcess(worldFile, imageFile)
  while (next < end && failed.length < 10) {
    const seed = next++
    const twice = options.twice || seed % TWICE === 0
    total.twice += Number(twice)
    const result = await runner.run({ ...ordered(seed), twice })
    total.seeds++
    if (result.failure !== undefined) {
      failed.push(result)
      console.log(`seed ${seed} BROKEN: ${result.failure}\n  ${command(seed, undefined, result.differs)}`)
    }
    if (result.ended) continue
    hashes[seed - first] = result.hash
    if (total.seeds % 100 === 0 && total.seeds < seeds) console.log(`${total.seeds} seeds ran`)
    total.slowest = Math.max(total.slowest, result.settled)
    total.faults += result.faults.length
    for (const key of ['ms', 'events', 'packets', 'starts']) total[key] += result[key]
    for (const key of ['readings', 'arrived', 'dropped', 'lied']) total[key] += result.counts[key]
  }
  runner.end()
}

await Promise.all(Array.from({ length: Math.min(workers, seeds) }, work))
const seconds = (performance.now() - started) / 1000
console.log(
  `${total.seeds} seeds (${first} to ${first + total.seeds - 1}), ${failed.length} broken, ${total.twice} run twice; ${seconds.toFixed(0)} s, ` +
    `${(total.ms / 3_600_000).toFixed(0)} simulated hours; ${total.faults} faults, ${total.starts} starts, ${total.events} events, ${total.packets} packets; ` +
    `${total.readings} readings, ${total.arrived} arrived, ${total.dropped} dropped by the bounds of logs${lied(total)}; slowest in step after ${(total.slowest / 1000).toFixed(0)} s; ` +
    `all traces ${hashes.reduce((sum, hash) => Math.imul(sum ^ hash, 0x0100_0193), 0x811c_9dc5) >>> 0}`,
)
if (failed.length > 0) {
  console.log(`on Node ${process.version}; with another one a seed may have another trace`)
  await tellShrunk(failed[0].seed, failed[0].differs)
  process.exit(1)
}
process.exit(0)
