// The ID allocator that receivers share, against real PostgreSQL: several processes with several connections each in parallel, quotas
// over all of them, leases, and an exhausted range (decision 0067, X5, X38). The file is also the child: it runs as such when the variable is set.
// Long: more devices and rounds
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test as register } from 'node:test'
import { promisify } from 'node:util'
import { OFFER_SECONDS, UNPROVED } from '../../../src/protocol/ids/quota'
import type { ServerConnection } from '../../../src/storage/server/connection'
import { allocate, type IdAnswer, type IdRequest, type IdWork } from '../../../src/storage/server/ids'
import { migrate } from '../../../src/storage/server/migrate'
import { postgresql } from '../../../src/storage/server/postgres'
import { serverSetup } from '../../../src/storage/server/setup'
import { root } from '../../lib/gateway'
import { prng, rounds } from '../../lib/random'
import { SqlServer } from '../../lib/sqlservers'

const CHILD = 'OS_NODE_IDS_CHILD'
/** what a child does, as JSON */
const child = process.env[CHILD]
const test = child === undefined ? register : () => undefined

let server: SqlServer
if (child === undefined) {
  before(async () => {
    server = await SqlServer.start('postgresql')
  })
  after(() => server?.stop())
}

type Driver = Parameters<typeof serverSetup>[1]

async function connect(driver: Driver, connections: number): Promise<ServerConnection[]> {
  const open: ServerConnection[] = []
  for (let k = 0; k < connections; k++) open.push(await postgresql.connect(serverSetup('postgresql', driver, '/', {})))
  await Promise.all(open.map(on => migrate(on, postgresql, true)))
  return open
}

/** Connections to a separate database, and a query to it as rows. */
async function world(connections: number) {
  const { driver } = await server.fresh()
  const open = await connect(driver, connections)
  const ask = (sql: string) => server.ask(sql, driver.database)
  return { driver, open, ask, close: () => open.forEach(on => void on.close()) }
}

const device = (key: string, more: Partial<IdRequest> = {}): IdRequest => ({
  ...{ key, meta: '{}', address: null, seq: 1, pool: 0, request: `${key} ${Math.random()}` },
  ...more,
})
const work = (more: Partial<IdWork>): IdWork => ({
  ...{ first: 1, last: 0xffff_fffe, leaseSeconds: 1000, poolSeconds: 5000, requests: [], heard: [], acknowledged: [] },
  ...more,
})
const idsOf = (answer: IdAnswer): number[] => answer.results.flatMap(result => ('ids' in result ? result.ids : []))
const codes = (answer: IdAnswer): string[] => answer.results.map(result => ('ids' in result ? 'ok' : result.code))

interface Task {
  readonly driver: Driver
  readonly seed: number
  readonly devices: number
  readonly batches: number
}
type Asked = readonly [key: string, pool: number, ids: readonly number[]]

/** A receiver: over three connections at once it asks for ids of random devices and for pools. */
async function receive({ driver, seed, devices, batches }: Task): Promise<Asked[]> {
  const random = prng(seed)
  const open = await connect(driver, 3)
  const asked = await Promise.all(
    open.map(async on => {
      const found: Asked[] = []
      for (let batch = 0; batch < batches; batch++) {
        const requests = Array.from({ length: 1 + Math.floor(random() * 12) }, () =>
          random() < 0.15
            ? device('', { pool: 1 + Math.floor(random() * 20) })
            : device(`d${Math.floor(random() * devices)}`),
        )
        const { results } = await allocate(on, work({ requests }))
        for (const [k, result] of results.entries()) {
          assert.ok('ids' in result)
          found.push([requests[k]!.key, requests[k]!.pool, result.ids])
        }
      }
      return found
    }),
  )
  for (const on of open) on.close()
  return asked.flat()
}

test('over parallel processes and connections no id is assigned twice, and each device has one id everywhere and keeps it', async t => {
  const { driver, ask, close } = await world(1)
  t.after(close)
  const task = { driver, devices: rounds(150, 2000), batches: rounds(20, 100) }
  const children = await Promise.all(
    [1, 2, 3].map(async seed => {
      const env = { ...process.env, NODE_TEST_CONTEXT: '', [CHILD]: JSON.stringify({ ...task, seed }) }
      const { stdout } = await promisify(execFile)(process.execPath, [__filename], { env, maxBuffer: 1 << 26 })
      return JSON.parse(stdout) as Asked[]
    }),
  )
  const owner = new Map<string, number>()
  const pools: number[] = []
  for (const [key, pool, ids] of children.flat()) {
    assert.equal(ids.length, pool || 1)
    if (pool > 0) pools.push(...ids)
    else {
      assert.equal(owner.get(key) ?? ids[0], ids[0], key)
      owner.set(key, ids[0]!)
    }
  }
  const all = [...owner.values(), ...pools]
  assert.equal(new Set(all).size, all.length, 'no id twice')
  const [[rows, highest, allocated] = []] = await ask(
    'SELECT COUNT(*), MAX(id), (SELECT allocated FROM os_id_state) FROM os_ids',
  )
  assert.deepEqual([rows, highest, allocated].map(Number), [all.length, all.length, all.length], 'and none left out')
})

test('the same bytes get the same ids from any receiver, also twice in one batch and for a pool', async t => {
  const { open, close } = await world(2)
  t.after(close)
  const pool = device('', { pool: 3, request: 'same bytes' })
  const nameless = device('', { request: 'nameless' })
  const [first, second] = [
    await allocate(open[0]!, work({ requests: [pool, pool, nameless] })),
    await allocate(open[1]!, work({ requests: [nameless, pool] })),
  ]
  assert.deepEqual(idsOf(first), [1, 2, 3, 1, 2, 3, 4])
  assert.deepEqual(idsOf(second), [4, 1, 2, 3])
})

test('quotas of an address count over all receivers, until a packet under an id of it proves the address', async t => {
  const { open, ask, close } = await world(2)
  t.after(close)
  const address = '192.0.2.7'
  const many = (from: number, count: number) =>
    Array.from({ length: count }, (_, k) => device(`m${from + k}`, { address, seq: from + k }))
  const half = UNPROVED.ids / 2
  await allocate(open[0]!, work({ requests: many(0, half) }))
  const beyond = await allocate(open[1]!, work({ requests: many(half, half + 2) }))
  assert.deepEqual([idsOf(beyond).length, codes(beyond).at(-1), beyond.unproved], [half, 'ID_QUOTA', UNPROVED.ids])
  const known = await allocate(open[1]!, work({ requests: many(0, 1) }))
  assert.deepEqual(idsOf(known), [1], 'who has an id gets it whatever the quota')
  const pool = (): IdRequest => device('', { pool: 9, address: '192.0.2.8' })
  const pools = [
    await allocate(open[0]!, work({ requests: [pool()] })),
    await allocate(open[1]!, work({ requests: [pool()] })),
  ]
  assert.deepEqual(pools.map(codes), [['ok'], ['ID_QUOTA']], 'one pool a minute')
  // from another address, and under an id of another address: proves nothing
  const not = await allocate(
    open[0]!,
    work({
      heard: [
        { id: 1, address: '192.0.2.9:5' },
        { id: 70, address: `${address}:5` },
      ],
    }),
  )
  assert.deepEqual([not.proved, [...not.known].sort()], [[], [1, 70]])
  const heard = await allocate(open[0]!, work({ heard: [{ id: 2, address: `${address}:99` }] }))
  assert.deepEqual([heard.proved, heard.unproved], [[address], 9])
  assert.deepEqual(codes(await allocate(open[1]!, work({ requests: many(500, 3) }))), ['ok', 'ok', 'ok'])
  assert.deepEqual((await ask(`SELECT held, proved FROM os_id_addresses WHERE address = '${address}'`))[0], [
    UNPROVED.ids + 3,
    true,
  ])
})

test('unproved ids of all addresses together are limited: for pools first, then for more ids of an address, then for any', async t => {
  const { open, ask, close } = await world(1)
  t.after(close)
  let asked = 0
  const of = async (unproved: number, address: string, pool = 0): Promise<string | number> => {
    await ask(`UPDATE os_id_state SET unproved = ${unproved}`)
    const requests = [device(pool ? '' : `m${++asked}`, { address, pool })]
    const answer = await allocate(open[0]!, work({ requests }))
    return answer.results.map(result => ('ids' in result ? result.ids.length : result.code))[0]!
  }
  const old = '192.0.2.7'
  assert.equal(await of(0, old), 1)
  assert.deepEqual([await of(UNPROVED.pools, '192.0.2.8', 9), await of(UNPROVED.pools, old)], ['ID_QUOTA', 1])
  assert.equal(await of(UNPROVED.pools - 3, '192.0.2.8', 9), 3, 'a pool is as large as it may be')
  assert.deepEqual([await of(UNPROVED.more - 1, old), await of(UNPROVED.more, old)], [1, 'ID_QUOTA'])
  assert.deepEqual([await of(UNPROVED.more, '192.0.2.9'), await of(UNPROVED.first - 1, '192.0.2.10')], [1, 1])
  assert.equal(await of(UNPROVED.first, '192.0.2.11'), 'ID_QUOTA')
})

test('an offer without an answer is taken back and assigned last; an ACK at any receiver keeps it, and so does a packet', async t => {
  const { open, ask, close } = await world(2)
  t.after(close)
  const address = '192.0.2.7'
  const requests = ['a', 'b', 'c'].map((key, k) => device(key, { address, seq: k + 1 }))
  await allocate(open[0]!, work({ requests }))
  await allocate(
    open[1]!,
    work({
      acknowledged: [
        { seq: 1, address: `${address}:4` },
        { seq: 3, address: '192.0.2.8:4' },
      ],
    }),
  )
  await allocate(open[1]!, work({ heard: [{ id: 2, address: '198.51.100.1:4' }] }))
  await ask(`UPDATE os_ids SET lease_expires_at = lease_expires_at - ${OFFER_SECONDS + 1}`)
  const after = await allocate(open[0]!, work({ requests: [device('d'), device('a')] }))
  assert.deepEqual([after.takenBack, ...idsOf(after)], [1, 4, 1])
  // when the range is exhausted expired offers are assigned, then none, and devices keep their ids
  const last = await allocate(open[1]!, work({ last: 4, requests: [device('e'), device('f'), device('b')] }))
  assert.deepEqual(
    [codes(last), idsOf(last)],
    [
      ['ok', 'ID_POOL_EXHAUSTED', 'ok'],
      [3, 2],
    ],
  )
})

test('an id whose lease has ended is assigned to another device, the lowest first; a packet renews it in time', async t => {
  const { open, ask, close } = await world(1)
  t.after(close)
  const [on] = open
  await allocate(on!, work({ requests: ['a', 'b', 'c', 'd'].map(key => device(key)) }))
  await ask('UPDATE os_ids SET lease_expires_at = lease_expires_at - 900')
  await allocate(on!, work({ heard: [{ id: 3, address: null }] }))
  await ask('UPDATE os_ids SET lease_expires_at = lease_expires_at - 200')
  const after = await allocate(on!, work({ requests: [device('e'), device('c'), device('d')] }))
  assert.deepEqual([idsOf(after), after.allocated, after.released], [[1, 3, 2], 3, 1])
})

test('three receivers give ids to new devices in batches of 64, each from an address of its own, and the rate is written down', async t => {
  const { open, close } = await world(3)
  t.after(close)
  const batches = rounds(20, 100)
  const begin = performance.now()
  const all = await Promise.all(
    open.map(async (on, k) => {
      const found: number[] = []
      for (let batch = 0; batch < batches; batch++) {
        const requests = Array.from({ length: 64 }, (_, n) =>
          device(`r${k}-${batch}-${n}`, { address: `10.${k}.${batch}.${n}`, seq: n + 1 }),
        )
        found.push(...idsOf(await allocate(on, work({ requests }))))
      }
      return found
    }),
  )
  const count = 3 * 64 * batches
  const rate = Math.round((1000 * count) / (performance.now() - begin))
  assert.equal(new Set(all.flat()).size, count)
  // the figure of docs/scale.md
  writeFileSync(join(root, '.build/sharedids.txt'), `${count} ids, ${rate} a second\n`)
})

if (child !== undefined)
  void receive(JSON.parse(child) as Task).then(asked => process.stdout.write(JSON.stringify(asked)))
