// The vectors' operation `id_alloc`: steps of an allocator in an empty folder, each at its own time.
import type { IdAllocator } from '../../../protocol/ids/allocator'
import type { Ops, Request } from './common'

const START = 1_710_000_000

function step(ids: IdAllocator, what: string, args: Request): unknown {
  switch (what) {
    case 'allocate_id':
      return ids.allocateId(args.meta)
    case 'allocate_pool':
      return ids.allocatePool(args.count, args.meta)
    case 'release_id':
      return ids.releaseId(args.id_val, args.immediate)
    case 'release_pool':
      return ids.releasePool(args.ids, args.immediate)
    case 'is_allocated':
      return ids.isAllocated(args.id_val)
    case 'get_meta':
      return ids.getMeta(args.id_val)
    case 'touch':
      return ids.touch(args.aid, args.addr)
    case 'reclaim_expired':
      return ids.reclaimExpired()
    case 'stats':
      return ids.stats()
    case 'dump':
      return ids.dump()
    default:
      throw new Error(`no step ${what}`)
  }
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
        if (s.do !== 'reload') return step(ids, s.do, s.args ?? {})
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
