// The ID allocator of the built library at a million ids: rates in memory (journal lines written in batches) and with every id
// on flash before it is told (64 requests at a time share a sync), heap per id, time of a start. The state lives in a
// temporary folder; the disk there decides the rate with commit.
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const IDS = 1_000_000
const COMMITTED = 12_800
const AT_ONCE = 64

/** JS heap and buffers outside of it, in bytes; `external` holds the array buffers too */
function memory() {
  globalThis.gc()
  globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const nameOf = k => `node-${String(k).padStart(7, '0')}`
const perSecond = (count, since) => Math.round((count / (performance.now() - since)) * 1000)

/** `put(key, value)` takes every figure; a device is known by a device_id of 12 characters */
export async function benchAllocator(IdAllocator, put) {
  const baseDir = mkdtempSync(join(tmpdir(), 'os-node-bench-ids-'))
  try {
    const before = memory()
    const ids = new IdAllocator({ baseDir })
    let start = performance.now()
    for (let k = 0; k < IDS; k++) {
      if (ids.allocateId({ device_id: nameOf(k) }) !== k + 1) throw new Error(`device ${k} got another id`)
      // the event loop of a server turns too
      if (k % 10_000 === 0) await null
    }
    put('ids/allocate/1000000', perSecond(IDS, start))
    start = performance.now()
    for (let k = 0; k < IDS; k++) ids.touch(1 + ((k * 7919) % IDS), '192.168.10.20:4000')
    put('ids/touch/1000000', perSecond(IDS, start))
    put('ids/bytes_per_id/1000000', Math.round(((memory() - before) / IDS) * 10) / 10)
    start = performance.now()
    for (let k = 0; k < COMMITTED; k += AT_ONCE) {
      await Promise.all(
        Array.from({ length: AT_ONCE }, (_, n) => {
          ids.allocateId({ device_id: `late-${k + n}` })
          return ids.commit()
        }),
      )
    }
    put('ids/allocate_and_commit/1000000', perSecond(COMMITTED, start))
    start = performance.now()
    ids.stop()
    put('ids/stop_ms/1000000', Math.round(performance.now() - start))
    put('ids/checkpoint_bytes/1000000', statSync(join(baseDir, 'data/id_allocation.json')).size)
    const again = new IdAllocator({ baseDir })
    start = performance.now()
    const { total_allocated } = again.stats()
    put('ids/start_ms/1000000', Math.round(performance.now() - start))
    if (total_allocated !== IDS + COMMITTED) throw new Error(`${total_allocated} ids after a start`)
    if (again.allocateId({ device_id: nameOf(4711) }) !== 4712) throw new Error('a device lost its id')
  } finally {
    rmSync(baseDir, { recursive: true, force: true })
  }
}
