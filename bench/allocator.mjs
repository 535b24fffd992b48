// The ID allocator of the built library at 100,000 ids: rates in memory (journal lines written in batches) and with every id
// on flash before it is answered (64 concurrent requests share a sync), memory per id, time of a start and its longest block
// of the event loop. The state is in a temporary folder; the disk there determines the rate with commit.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const IDS = 100_000
const COMMITTED = 12_800
const AT_ONCE = 64

/** JS heap and buffers outside of it, in bytes; `external` includes the array buffers */
function memory() {
  globalThis.gc()
  globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const nameOf = k => `node-${String(k).padStart(7, '0')}`
/** The duration of `work`, and the longest block of the event loop meanwhile. */
async function timed(work) {
  const start = performance.now()
  let last = start
  let blocked = 0
  const look = () => {
    blocked = Math.max(blocked, performance.now() - last)
    last = performance.now()
    turning = setImmediate(look)
  }
  let turning = setImmediate(look)
  await work()
  clearImmediate(turning)
  return { ms: performance.now() - start, blocked }
}

const perSecond = (count, since) => Math.round((count / (performance.now() - since)) * 1000)

/** `put(key, value)` records every figure; a device is known by a device_id of 12 characters */
export async function benchAllocator(IdAllocator, put) {
  const baseDir = mkdtempSync(join(tmpdir(), 'os-node-bench-ids-'))
  try {
    const before = memory()
    const ids = new IdAllocator({ baseDir })
    let start = performance.now()
    for (let k = 0; k < IDS; k++) {
      if (ids.allocateId({ device_id: nameOf(k) }) !== k + 1) throw new Error(`device ${k} got another id`)
      // the event loop of a server runs too
      if (k % 10_000 === 0) await null
    }
    put('allocator/100000/allocate', perSecond(IDS, start))
    start = performance.now()
    for (let k = 0; k < IDS; k++) ids.touch(1 + ((k * 7919) % IDS), '192.168.10.20:4000')
    put('allocator/100000/touch', perSecond(IDS, start))
    put('allocator/100000/bytes_per_id', Math.round(((memory() - before) / IDS) * 10) / 10)
    start = performance.now()
    for (let k = 0; k < COMMITTED; k += AT_ONCE) {
      await Promise.all(
        Array.from({ length: AT_ONCE }, (_, n) => {
          ids.allocateId({ device_id: `late-${k + n}` })
          return ids.commit()
        }),
      )
    }
    put('allocator/100000/allocate_and_commit', perSecond(COMMITTED, start))
    start = performance.now()
    ids.stop()
    put('allocator/100000/stop_ms', Math.round(performance.now() - start))
    const file = join(baseDir, 'data/id_allocation.json')
    put('allocator/100000/file_bytes', readFileSync(file).length)
    // the best of three, so that other load on the machine does not count; parsing the file in one piece is the
    // reference
    let again
    const starts = []
    const parses = []
    for (let k = 0; k < 3; k++) {
      again = new IdAllocator({ baseDir })
      starts.push(await timed(() => again.start()))
      parses.push(await timed(() => JSON.parse(readFileSync(file, 'utf8'))))
    }
    const start_ms = Math.min(...starts.map(({ ms }) => ms))
    const parse_ms = Math.min(...parses.map(({ ms }) => ms))
    put('allocator/100000/start_ms', Math.round(start_ms))
    put('allocator/100000/parse_ms', Math.round(parse_ms))
    put('allocator/100000/start_times', Math.round((start_ms / parse_ms) * 10) / 10)
    put('allocator/100000/start_blocked_ms', Math.round(Math.min(...starts.map(({ blocked }) => blocked))))
    const { total_allocated } = again.stats()
    if (total_allocated !== IDS + COMMITTED) throw new Error(`${total_allocated} ids after a start`)
    if (again.allocateId({ device_id: nameOf(4711) }) !== 4712) throw new Error('a device lost its id')
  } finally {
    rmSync(baseDir, { recursive: true, force: true })
  }
}
