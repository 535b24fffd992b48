// The vectors' operation `id_alloc`: steps of an allocator in an empty folder, each at its own time.
import type { IdAllocator } from '../../../protocol/ids/allocator'
import type { Ops, Request } from './common'

const START = 1_710_000_000

const STEPS: Record<string, (ids: IdAllocator, args: Request) => unknown> = {
  allocate_id: (ids, { meta }) => ids.allocateId(meta),
  allocate_pool: (ids, { count, meta }) => ids.allocatePool(count, meta),
  release_id: (ids, { id_val, immediate }) => ids.releaseId(id_val, immediate),
  release_pool: (ids, args) => ids.releasePool(args.ids, args.immediate),
  is_allocated: (ids, { id_val }) => ids.isAllocated(id_val),
  get_meta: (ids, { id_val }) => ids.getMeta(id_val),
  touch: (ids, { aid, addr }) => ids.touch(aid, addr),
  reclaim_expired: ids => ids.reclaimExpired(),
  stats: ids => ids.stats(),
  dump: ids => ids.dump(),
}

export const allocatorOps: Ops = {
  id_alloc: (lib, request, dir) => {
    let now = START
    const open = (): IdAllocator =>
      new lib.IdAllocator(
        {
          baseDir: dir,
          startId: request.start_id,
          endId: request.end_id,
          maxReleased: request.max_released,
          leasePolicy: request.lease_policy,
        },
        { now: () => now },
      )
    let ids = open()
    const results = request.steps.map((s: Request) => {
      now = s.now ?? START
      try {
        if (s.do !== 'reload') return STEPS[s.do]!(ids, s.args ?? {})
        ids.stop()
        ids = open()
        return true
      } catch (thrown) {
        return { error: 'RuntimeError', msg: (thrown as Error).message }
      }
    })
    ids.stop()
    return { results }
  },
}
