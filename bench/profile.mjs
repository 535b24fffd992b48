// Where a CPU profile spent its time: percent of the time that was not idle, by file of the sources, native function, garbage collection and Node.
import { SourceMap } from 'node:module'

/** µs, twice the interval of samples: what is longer is time that other processes had */
const MOST = 400
/** parts with less than this percent are added up */
const LEAST = 0.2

/** `profile` of node:inspector, of one bundle with this source map. Returns `[part, percent]`, the largest first. */
export function shares({ nodes, samples, timeDeltas }, mapText) {
  const map = new SourceMap(JSON.parse(mapText))
  const partOf = new Map(nodes.map(node => [node.id, partName(node.callFrame, map)]))
  const times = new Map()
  let all = 0
  for (const [k, id] of samples.entries()) {
    const part = partOf.get(id)
    if (part === '(idle)') continue
    const time = Math.min(timeDeltas[k], MOST)
    all += time
    times.set(part, (times.get(part) ?? 0) + time)
  }
  const parts = [...times].map(([part, us]) => [part, (us / all) * 100]).sort((a, b) => b[1] - a[1])
  const rest = parts.filter(([, percent]) => percent < LEAST)
  const sum = rest.reduce((total, [, percent]) => total + percent, 0)
  return [...parts.filter(([, percent]) => percent >= LEAST), [`${rest.length} smaller parts`, sum]]
}

/** Prints what `shares` returned. */
export function printShares(parts) {
  console.log('in percent of the time that the main thread did not wait:')
  for (const [part, percent] of parts) console.log(`  ${percent.toFixed(1).padStart(5)}  ${part}`)
}

/** All functions of the addon have one address in memory, and V8 shows the name that it saw there last. */
const OF_ADDON = 'holdLe'

/** Functions of Node's own programs that are called for timers and promises. */
const OF_NODE = ['(program)', 'getLibuvNow', 'now', 'runMicrotasks', 'toggleImmediateRef', 'scheduleTimer']

function partName({ functionName, url, lineNumber, columnNumber }, map) {
  if (functionName === '(garbage collector)' || functionName === '(idle)') return functionName
  // the profiler's own start and end
  if (url === 'node:inspector' || (url === '' && functionName === 'dispatch')) return '(idle)'
  if (url.startsWith('node:') || OF_NODE.includes(functionName)) return 'V8 and Node'
  if (url === '' && functionName === OF_ADDON) return 'native: the addon'
  if (url === '') return `native: ${functionName || 'of an addon'}`
  const { originalSource: source } = map.findEntry(lineNumber, columnNumber)
  if (!source || source.includes('bench/') || source.includes('test/')) return 'bench'
  return source.split('/').slice(-2).join('/')
}
