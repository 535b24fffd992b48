#!/usr/bin/env node
// `npm run bench [-- --json FILE] [--only PREFIX] [--against FILE] [--profile]`: the codec of the built library compared with the limit probe and its
// peers, then the ID allocator at 100,000 ids, then the paths: UDP, many nodes, recovery, MQTT, CAN, then the latency, the start and the
// memory of a gateway. Rates are printed, with their targets; bytes, heap, loss, lag and ratios within one run are gated: beyond its gate
// means exit 1. Keys are `what/how/size/backend`, those of the allocator `allocator/count/what`, those of UDP `udp/way/how`.
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { against } from './against.mjs'
import { benchAllocator } from './allocator.mjs'
import { benchBalancers } from './balancers.mjs'
import { benchCan } from './can.mjs'
import { benchCodec } from './codec.mjs'
import { benchCounted } from './counted.mjs'
import { benchExchange } from './exchange.mjs'
import { benchFlash } from './flash.mjs'
import { benchGrowth } from './growth.mjs'
import { benchHeap } from './heap.mjs'
import { benchLatency } from './latency.mjs'
import { benchMedia } from './media.mjs'
import { benchMqtt } from './mqtt.mjs'
import { benchNodeRed } from './node-red.mjs'
import { benchNodes } from './nodes.mjs'
import { benchOpening } from './opening.mjs'
import { benchPostgresql } from './postgresql.mjs'
import { benchQueries } from './queries.mjs'
import { ratioProblems } from './ratios.mjs'
import { benchRecovery } from './recovery.mjs'
import { benchSmallBoard } from './small-board.mjs'
import { benchSpi } from './spi.mjs'
import { benchSql } from './sql.mjs'
import { benchStart } from './start.mjs'
import { partners, printTable } from './table.mjs'
import { benchUdp } from './udp.mjs'

const require = createRequire(import.meta.url)
const {
  DatabaseManager,
  FlashLog,
  IdAllocator,
  mediaTable,
  Receiver,
  ucumUnits: units,
  UplinkEncoder,
} = require('../dist/os-node.js')

const args = process.argv.slice(2)
const option = name => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined)
const profiled = args.includes('--profile')
/** one prefix, or several separated by commas */
const named = (option('--only') ?? '').split(',')
const only = [...named, ...partners(named)]
/**
 * memory per id in use, including everything a server keeps for a device; a start as a multiple of parsing its file; at
 * 100,000 ids
 */
const ID_GATES = { bytes_per_id: 400, start_times: 6 }

const results = {}
const problems = []
/** the note after a figure in the table */
const notes = new Map()
const wanted = key => only.some(prefix => key.startsWith(prefix))
/** whether any figure of a part may be requested */
const starts = part => only.some(prefix => part.startsWith(prefix) || prefix.startsWith(part))
const put = (key, value) => {
  if (wanted(key)) results[key] = value
}
const earlier = option('--against')
// before any measurement: an unreadable file should not be noticed after an hour
const before = earlier ? JSON.parse(readFileSync(earlier, 'utf8')) : null
if (!globalThis.gc) {
  console.error('the heap is measured after a collection: run `npm run bench`, or node --expose-gc bench/run.mjs')
  process.exit(2)
}

/** A figure with a budget; one with a target may be below that. */
function gate(key, value, budget, hoped) {
  if (!wanted(key)) return
  put(key, value)
  notes.set(key, `gate ≤ ${budget}${hoped ? `, mark ${hoped}` : ''}`)
  if (!(value <= budget)) problems.push(`${key}: ${value} is over the budget of ${budget}`)
}
/** A figure with a minimum. */
function gateLeast(key, value, least) {
  if (!wanted(key)) return
  put(key, value)
  notes.set(key, `gate ≥ ${least}`)
  if (!(value >= least)) problems.push(`${key}: ${value} is under ${least}`)
}
/** A figure, and its target on the machine of the design. */
function mark(key, value, hoped) {
  if (!wanted(key)) return
  put(key, value)
  if (hoped) notes.set(key, `mark ${hoped}`)
}

await benchCodec({ put, gate, mark, problems, wanted })

if (starts('allocator/'))
  await benchAllocator(IdAllocator, (key, value) => {
    const limit = ID_GATES[key.split('/').at(-1)]
    if (limit) gate(key, value, limit)
    else put(key, value)
  })
const plots = option('--plots')
const grows = plots !== undefined || only.some(prefix => prefix.startsWith('growth/'))
if (grows) benchGrowth({ Receiver, UplinkEncoder, units }, { put, problems }, plots)

if (starts('udp/')) await benchUdp({ put, gate, gateLeast, mark, problems, wanted, starts })

await benchCounted({ put, problems, wanted })

if (starts('spi/')) await benchSpi({ put, gate })

if (starts('nodes/')) await benchNodes({ put, gate, mark })

if (starts('balancers/')) await benchBalancers({ put, problems, wanted })

if (starts('recovery/')) await benchRecovery({ FlashLog }, require.resolve('../dist/os-node.js'), { put, mark })

const opens = named.some(prefix => prefix.startsWith('opening/'))
if (opens) await benchOpening({ put, problems })

if (starts('exchange/'))
  await benchExchange({ FlashLog }, require.resolve('../dist/os-node.js'), { mark, put, problems })

if (starts('mqtt/')) {
  const quiet = () => undefined
  const logger = { debug: quiet, info: quiet, warn: quiet, error: quiet, child: () => logger }
  const clock = { mono: () => performance.now(), wall: () => Date.now() }
  const library = { mqttDriver: await mediaTable.MQTT(), FlashLog, Receiver, UplinkEncoder, units }
  await benchMqtt({ ...library, context: { clock, logger } }, { put, mark, problems })
}

if (starts('flash/')) await benchFlash({ FlashLog }, { put, mark, gate, problems })

if (['sql/packets', 'sql/worker'].some(starts)) await benchSql({ FlashLog, DatabaseManager }, { put, mark, problems })

if (['sql/newest', 'sql/old', 'sql/history', 'sql/pause', 'sql/rss', 'sql/file'].some(starts))
  await benchQueries({ FlashLog, DatabaseManager }, require.resolve('../dist/os-node.js'), { put, mark, problems })

if (starts('postgresql/')) await benchPostgresql({ FlashLog, DatabaseManager }, { put, mark, problems })

const parts = [
  'latency/',
  'flash_bytes_per_reading/',
  'wakeups_per_s/',
  'gateway/cpu',
  'gateway/readings',
  'bytes_per_reading/mqtt',
]
if (parts.some(starts)) {
  const quiet = () => undefined
  const logger = { debug: quiet, info: quiet, warn: console.error, error: console.error, child: () => logger }
  const clock = { mono: () => performance.now(), wall: () => Date.now() }
  await benchLatency(
    { mqttDriver: await mediaTable.MQTT(), context: { clock, logger } },
    { put, mark, gate, problems, starts, wanted },
  )
}

if (starts('peer/node-red/')) await benchNodeRed({ put, problems })

if (starts('gateway/heap_bytes_per_packet/'))
  await benchHeap({ FlashLog, mediaTable }, { gate, problems, starts }, profiled)

if (starts('medium/')) benchMedia({ gate, problems, wanted }, profiled)

if (starts('small_board/')) await benchSmallBoard({ put, mark, problems })

if (starts('can/')) benchCan({ put, mark, gateLeast, problems })

if (['start/', 'memory/', 'idle/'].some(starts)) await benchStart({ put, gate, mark, problems, wanted: starts })

problems.push(...ratioProblems(results, notes))
printTable(results, notes)
if (before) {
  // growth with load and the opening of a large log are measured only when they are named
  const due = key => wanted(key) && (grows || !key.startsWith('growth/')) && (opens || !key.startsWith('opening/'))
  const compared = against(before, results, due)
  console.log(`\nThis run as a multiple of ${earlier}`)
  for (const line of compared.lines) console.log(line)
  problems.push(...compared.problems)
}
const file = option('--json')
if (Object.keys(results).length + problems.length === 0) problems.push(`no key begins with ${named.join(' or ')}`)
if (file) writeFileSync(file, `${JSON.stringify(results, null, 2)}\n`)
for (const problem of problems) console.error(`BENCH: ${problem}`)
process.exit(problems.length > 0 ? 1 : 0)
