// Specification, "ID allocator" and "ID allocator methods".
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { IdAllocator } from '../../../src/index'
import type { Row, Table } from '../rows'
import * as is from '../shape'
import { constructorOptions, parameters, sameParameters } from '../signature'
import { library, newFolder, T } from '../world'

type Allocator = InstanceType<typeof library.IdAllocator>

interface Method {
  readonly name: string
  readonly method: keyof IdAllocator
  readonly parameters: readonly string[]
  readonly returns: is.Shape
  call(ids: Allocator): unknown
}

const METHODS: readonly Method[] = [
  {
    name: 'allocate_id',
    method: 'allocateId',
    parameters: ['meta = null'],
    returns: is.exactly(1),
    call: ids => ids.allocateId(),
  },
  {
    name: 'allocate_pool',
    method: 'allocatePool',
    parameters: ['count', 'meta = null'],
    returns: is.exactly([1, 2, 3]),
    call: ids => {
      const pool = ids.allocatePool(3, { site: 'roof' })
      is.record({ site: is.exactly('roof') })(ids.getMeta(2))
      return pool
    },
  },
  {
    name: 'release_id',
    method: 'releaseId',
    parameters: ['idVal', 'immediate = false'],
    returns: is.exactly(true),
    call: ids => {
      assert.equal(ids.releaseId(9), false, 'it was not in use')
      const [kept, gone] = [ids.allocateId({ device_id: 'a' }), ids.allocateId({ device_id: 'b' })]
      ids.releaseId(kept)
      const released = ids.releaseId(gone, true)
      assert.deepEqual(
        [ids.isAllocated(kept), ids.isAllocated(gone)],
        [true, false],
        'after its lease, and immediately',
      )
      return released
    },
  },
  {
    name: 'release_pool',
    method: 'releasePool',
    parameters: ['ids'],
    returns: is.exactly(2),
    call: ids => {
      ids.allocatePool(2)
      const count = ids.releasePool([1, 2, 77])
      assert.equal(ids.releasePool([77]), 0)
      return count
    },
  },
  {
    name: 'is_allocated',
    method: 'isAllocated',
    parameters: ['idVal'],
    returns: is.exactly(true),
    call: ids => {
      assert.equal(ids.isAllocated(1), false)
      return ids.isAllocated(ids.allocateId())
    },
  },
  {
    name: 'get_meta',
    method: 'getMeta',
    parameters: ['idVal'],
    returns: is.record({ device_id: is.exactly('a') }),
    call: ids => ids.getMeta(ids.allocateId({ device_id: 'a' })),
  },
  {
    name: 'stats',
    method: 'stats',
    parameters: [],
    returns: is.record({
      total_allocated: is.integer,
      total_released: is.integer,
      range: is.exactly([1, 4294967295]),
      lease_policy: is.dict,
      lease_metrics: is.dict,
    }),
    call: ids => ids.stats(),
  },
]

const row = ({ name, method, parameters: wanted, returns, call }: Method): Row => ({
  name,
  observe: () => {
    sameParameters(parameters(IdAllocator.prototype[method] as never), wanted, name)
    const ids = new library.IdAllocator({ baseDir: newFolder() })
    returns(call(ids), name)
    ids.stop()
  },
})

export const allocatorTables: readonly Table[] = [
  {
    title: 'ID allocator',
    rows: [
      {
        name: 'constructor',
        observe: () => {
          const options = constructorOptions(IdAllocator)
          const named = options.map(option => option.replace(/:.*? = /, ' = '))
          for (const [name, standard] of [
            ['baseDir', 'null'],
            ['startId', '1'],
            ['endId', undefined],
            ['persistFile', "'data/id_allocation.json'"],
            ['maxReleased', '10000'],
            ['leasePolicy', 'null'],
            ['metricsSink', 'null'],
          ] as const) {
            const found = named.find(option => option.startsWith(`${name} = `))
            assert.ok(found, `${name}: ${named.join(', ')}`)
            if (standard !== undefined) assert.equal(found, `${name} = ${standard}`)
          }
        },
      },
      {
        name: 'constructor: base_dir, persist_file',
        observe: async () => {
          const baseDir = newFolder()
          const ids = new library.IdAllocator({ baseDir })
          ids.allocateId({ device_id: 'a' })
          await ids.commit()
          await ids.settled()
          ids.stop()
          assert.ok(existsSync(join(baseDir, 'data/id_allocation.json')))
          const again = new library.IdAllocator({ baseDir })
          assert.equal(again.allocateId({ device_id: 'a' }), 1)
          assert.equal(again.allocateId({ device_id: 'b' }), 2)
          again.stop()
        },
      },
      {
        name: 'constructor: start_id, end_id',
        observe: () => {
          const ids = new library.IdAllocator({ baseDir: newFolder(), startId: 10, endId: 11 })
          assert.deepEqual(ids.allocatePool(5), [10, 11])
          assert.throws(() => ids.allocateId({ device_id: 'x' }), { code: 'ID_POOL_EXHAUSTED' })
          ids.stop()
        },
      },
      {
        name: 'constructor: max_released, the lowest freed ids are used again',
        observe: () => {
          const ids = new library.IdAllocator({ baseDir: newFolder(), maxReleased: 256 })
          const pool = ids.allocatePool(600)
          assert.equal(pool.filter(id => ids.releaseId(id, true)).length, 600)
          assert.equal(ids.stats().total_released, 600)
          assert.deepEqual(ids.allocatePool(3), [1, 2, 3])
          ids.stop()
        },
      },
      {
        name: 'constructor: lease_policy, metrics_sink',
        observe: () => {
          let now = T
          const told: unknown[] = []
          const ids = new library.IdAllocator(
            {
              baseDir: newFolder(),
              leasePolicy: { base_lease_seconds: 100, metrics_emit_interval_seconds: 1 },
              metricsSink: metrics => void told.push(metrics),
            },
            { now: () => now },
          )
          const id = ids.allocateId({ device_id: 'a' })
          ids.releaseId(id)
          now += 99
          ids.reclaimExpired()
          assert.equal(ids.isAllocated(id), true)
          now += 2
          ids.reclaimExpired()
          assert.equal(ids.isAllocated(id), false)
          ids.stats()
          is.record({ effective_lease_seconds: is.exactly(100) })(told[0])
          ids.stop()
        },
      },
      ...METHODS.map(row),
    ],
  },
]
