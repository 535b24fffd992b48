// The ID allocator that several receivers share: tables os_ids, os_id_addresses and os_id_state of a PostgreSQL database
// (decision 0067), created by postgres.ts. One call is one transaction, which first locks the only row of os_id_state: allocators
// work one after another, in batches, so that no id is granted twice, and the quotas of X38 count over all receivers. Times
// are UNIX seconds of the server's clock.
//
// Errors: a request over its quota or an exhausted range gets its own error among the answers, and takes nothing. If the
// server becomes unreachable, the complete call fails, and all or none of it was done: the same bytes get the same ids again.
import { OsError } from '../../lib/errors'
import { networkOf } from '../../protocol/address'
import { OFFER_SECONDS, POOL_INTERVAL_MS, PROVED_IDS, UNPROVED } from '../../protocol/ids/quota'
import { type Connection, type ServerConnection, short } from './connection'

/** A request for ids. `key` '': the device is not recognised again. */
export interface IdRequest {
  readonly key: string
  /** metadata of the device, JSON */
  readonly meta: string
  /** network of the sender, for the quotas; null: this gateway itself, without quotas */
  readonly address: string | null
  /** number of the request, repeated in its ACK */
  readonly seq: number
  /** size of the pool; 0: one id for the device itself */
  readonly pool: number
  /** hash of address and bytes: an equal request within seconds gets the same answer */
  readonly request: string
}

export interface IdWork {
  readonly first: number
  readonly last: number
  readonly leaseSeconds: number
  readonly poolSeconds: number
  readonly requests: readonly IdRequest[]
  /** ids of valid data packets, with their addresses */
  readonly heard: readonly { readonly id: number; readonly address: string | null }[]
  readonly acknowledged: readonly { readonly seq: number; readonly address: string }[]
}

type IdResult =
  | { readonly ids: readonly number[] }
  | { readonly code: 'ID_QUOTA' | 'ID_POOL_EXHAUSTED'; readonly message: string }

export interface IdAnswer {
  /** in the order of the requests */
  readonly results: readonly IdResult[]
  /** the heard ids that are in use */
  readonly known: readonly number[]
  /** networks of senders that were proved by a packet with an id granted to them */
  readonly proved: readonly string[]
  readonly allocated: number
  readonly released: number
  readonly next: number
  /** ids of addresses that are not proved */
  readonly unproved: number
  /** offers that this call took back */
  readonly takenBack: number
}

/** the same bytes within this time get the same ids */
const REPEAT_SECONDS = 15
/** maximum of expired ids taken back per call */
const RECLAIM = 512

interface IdRow {
  id: number
  state: string
  addr: string | null
}

interface Account {
  held: number
  proved: boolean
  poolAt: number
  changed?: true
}

interface State {
  next: number
  allocated: number
  released: number
  unproved: number
  readonly now: number
}

/** An array in PostgreSQL's text format. */
const list = (values: readonly (string | number | null)[]): string =>
  `{${values.map(value => (typeof value === 'string' ? `"${value.replace(/["\\]/g, '\\$&')}"` : (value ?? 'NULL'))).join(',')}}`

/** The list, with every array in it converted to that text. */
const texts = (values: readonly unknown[]): unknown[] =>
  values.map(value => (Array.isArray(value) ? list(value) : value))

/** Does the work and commits it; the answer is durable. */
export function allocate(on: ServerConnection, work: IdWork): Promise<IdAnswer> {
  return on.transaction(async plain => {
    const tx: Connection = {
      rows: (sql, values = []) => plain.rows(sql, texts(values)),
      run: (sql, values = []) => plain.run(sql, texts(values)),
    }
    const [row] = await tx.rows(
      `SELECT next_id, allocated, released, unproved, floor(extract(epoch FROM clock_timestamp()))::bigint FROM os_id_state FOR UPDATE`,
    )
    const [next, allocated, released, unproved, now] = row!.map(Number) as [number, number, number, number, number]
    const state: State = { next: Math.max(next, work.first), allocated, released, unproved, now }
    const takenBack = await reclaim(tx, state)
    const heard = await hear(tx, state, work)
    await acknowledge(tx, state, work)
    const results = work.requests.length > 0 ? await serve(tx, state, work) : []
    await tx.run('UPDATE os_id_state SET next_id = ?, allocated = ?, released = ?, unproved = ?', [
      ...[state.next, state.allocated, state.released, state.unproved],
    ])
    const { now: _, ...counts } = state
    return { results, ...heard, ...counts, takenBack }
  })
}

/** Frees expired ids; returns how many of them were only offered. */
async function reclaim(tx: Connection, state: State): Promise<number> {
  const freed = await tx.rows(
    `UPDATE os_ids SET taken_back = state = 'offered', state = 'free', device_key = NULL, request = NULL, meta = '{}', ts = ?
     WHERE id IN (SELECT id FROM os_ids WHERE state <> 'free' AND lease_expires_at <= ? ORDER BY lease_expires_at LIMIT ${RECLAIM})
     RETURNING granted_to, taken_back`,
    [state.now, state.now],
  )
  if (freed.length === 0) return 0
  state.allocated -= freed.length
  state.released += freed.length
  const by = new Map<string, number>()
  for (const [to] of freed) if (to !== null) by.set(String(to), (by.get(String(to)) ?? 0) + 1)
  const accounts = await tx.rows(
    `UPDATE os_id_addresses a SET held = held - t.n FROM unnest(?::text[], ?::int[]) AS t(address, n)
     WHERE a.address = t.address RETURNING t.n, a.proved`,
    [[...by.keys()], [...by.values()]],
  )
  for (const [n, proved] of accounts) if (!proved) state.unproved -= Number(n)
  await tx.run('DELETE FROM os_id_addresses WHERE address = ANY(?::text[]) AND held <= 0 AND pool_at < ?', [
    ...[[...by.keys()], state.now - POOL_INTERVAL_MS / 1000],
  ])
  return freed.filter(([, back]) => back).length
}

/** Valid packets arrived: keeps their ids in use, and marks an address as proved by an id granted to it. */
async function hear(
  tx: Connection,
  state: State,
  { heard, leaseSeconds, poolSeconds }: IdWork,
): Promise<Pick<IdAnswer, 'known' | 'proved'>> {
  if (heard.length === 0) return { known: [], proved: [] }
  const rows = await tx.rows(
    `UPDATE os_ids i SET state = 'active', last_seen = ?, addr = COALESCE(t.addr, i.addr),
       lease_expires_at = GREATEST(i.lease_expires_at, ? + CASE WHEN i.pool THEN ?::bigint ELSE ?::bigint END)
     FROM unnest(?::bigint[], ?::text[], ?::text[]) AS t(id, addr, net) WHERE i.id = t.id AND i.state <> 'free'
     RETURNING i.id, CASE WHEN i.granted_to = t.net THEN t.net END`,
    [
      ...[state.now, state.now, poolSeconds, leaseSeconds, heard.map(({ id }) => id)],
      ...[heard.map(({ address }) => address), heard.map(({ address }) => address && networkOf(address))],
    ],
  )
  const proved = [...new Set(rows.flatMap(([, net]) => (net === null ? [] : [String(net)])))]
  await prove(tx, state, proved)
  return { known: rows.map(([id]) => Number(id)), proved }
}

async function prove(tx: Connection, state: State, addresses: readonly string[]): Promise<void> {
  if (addresses.length === 0) return
  const proved = await tx.rows(
    'UPDATE os_id_addresses SET proved = true WHERE NOT proved AND address = ANY(?::text[]) RETURNING held',
    [addresses],
  )
  for (const [held] of proved) state.unproved -= Number(held)
}

async function acknowledge(tx: Connection, state: State, work: IdWork): Promise<void> {
  const { acknowledged, leaseSeconds, poolSeconds } = work
  if (acknowledged.length === 0) return
  await tx.run(
    `UPDATE os_ids i SET state = 'active', last_seen = ?,
       lease_expires_at = ? + CASE WHEN i.pool THEN ?::bigint ELSE ?::bigint END
     FROM unnest(?::text[], ?::int[]) AS t(net, seq) WHERE i.state = 'offered' AND i.asked_by = t.net AND i.seq = t.seq`,
    [
      ...[state.now, state.now, poolSeconds, leaseSeconds],
      ...[acknowledged.map(({ address }) => networkOf(address)), acknowledged.map(({ seq }) => seq)],
    ],
  )
}

/** Answers requests in order: reads everything they need in one query, and writes the grants in one statement. */
async function serve(tx: Connection, state: State, work: IdWork): Promise<IdResult[]> {
  const { requests } = work
  const keyOf = ({ key }: IdRequest): string => short(key.replaceAll('\0', '\u2400'))
  const byKey = new Map<string, IdRow>()
  const byRequest = new Map<string, number[]>()
  const rows = await tx.rows(
    `SELECT id, state, addr, device_key, request, requested_at FROM os_ids
     WHERE state <> 'free' AND (device_key = ANY(?::text[]) OR request = ANY(?::text[])) ORDER BY id`,
    [requests.map(keyOf).filter(Boolean), requests.map(({ request }) => request)],
  )
  for (const [id, rowState, addr, key, request, at] of rows) {
    const row = { id: Number(id), state: String(rowState), addr: addr === null ? null : String(addr) }
    if (key !== null) byKey.set(String(key), row)
    if (request !== null && Number(at) > state.now - REPEAT_SECONDS)
      byRequest.set(String(request), [...(byRequest.get(String(request)) ?? []), row.id])
  }
  const accounts = new Map<string, Account>()
  const addresses = [...new Set(requests.flatMap(({ address }) => address ?? []))]
  for (const [address, held, proved, poolAt] of await tx.rows(
    'SELECT address, held, proved, pool_at FROM os_id_addresses WHERE address = ANY(?::text[])',
    [addresses],
  ))
    accounts.set(String(address), { held: Number(held), proved: proved === true, poolAt: Number(poolAt) })

  const free = await available(
    tx,
    state,
    work,
    requests.reduce((sum, { pool }) => sum + Math.max(1, pool), 0),
  )
  const granted: { id: number; request: IdRequest }[] = []
  const renewed: { id: number; request: IdRequest }[] = []
  const results: IdResult[] = []
  for (const request of requests) {
    const { address, pool } = request
    const again = byRequest.get(request.request)
    if (again) {
      results.push({ ids: again })
      continue
    }
    const key = keyOf(request)
    const known = pool === 0 && key !== '' ? byKey.get(key) : undefined
    const account = address === null ? undefined : (accounts.get(address) ?? { held: 0, proved: false, poolAt: 0 })
    if (account) accounts.set(address!, account)
    if (known) {
      if (account && !account.proved && known.addr !== null && networkOf(known.addr) === address) {
        account.proved = account.changed = true
        state.unproved -= account.held
      }
      renewed.push({ id: known.id, request })
      byRequest.set(request.request, [known.id])
      results.push({ ids: [known.id] })
      continue
    }
    const refused = account && quota(account, state, pool)
    if (refused) {
      results.push({ code: 'ID_QUOTA', message: `no more ids for now: ${refused}` })
      continue
    }
    const ids = free.splice(0, account ? admitted(account, state, pool) : Math.max(1, pool))
    if (ids.length === 0) {
      const message = `[IDAllocator] ID pool exhausted (${work.first}-${work.last})`
      results.push({ code: 'ID_POOL_EXHAUSTED', message })
      continue
    }
    for (const id of ids) granted.push({ id, request })
    if (pool === 0 && key !== '') byKey.set(key, { id: ids[0]!, state: 'offered', addr: null })
    byRequest.set(request.request, ids)
    if (account) {
      account.held += ids.length
      account.changed = true
      if (!account.proved) state.unproved += ids.length
      if (pool > 0) account.poolAt = state.now
    }
    results.push({ ids })
  }
  await write(tx, state, work, granted, renewed, keyOf)
  const changed = [...accounts].filter(([, account]) => account.changed)
  if (changed.length > 0)
    await tx.run(
      `INSERT INTO os_id_addresses SELECT * FROM unnest(?::text[], ?::int[], ?::bool[], ?::bigint[])
       ON CONFLICT (address) DO UPDATE SET held = excluded.held, proved = excluded.proved, pool_at = excluded.pool_at`,
      [
        ...[changed.map(([address]) => address), changed.map(([, { held }]) => held)],
        ...[changed.map(([, { proved }]) => String(proved)), changed.map(([, { poolAt }]) => poolAt)],
      ],
    )
  return results
}

const inAll = ({ held }: Account, pool: number): number =>
  pool > 0 ? UNPROVED.pools : held === 0 ? UNPROVED.first : UNPROVED.more

/** Why the address gets no new ids; undefined: it gets them (X38). */
function quota(account: Account, state: State, pool: number): string | undefined {
  const { held, proved, poolAt } = account
  if (pool > 0 && !proved && state.now - poolAt < POOL_INTERVAL_MS / 1000) return 'one pool a minute'
  if (admitted(account, state, pool) > 0) return undefined
  return held >= (proved ? PROVED_IDS : UNPROVED.ids) ? `${held} ids of this address` : `${state.unproved} unproved ids`
}

function admitted(account: Account, { unproved }: State, pool: number): number {
  const own = (account.proved ? PROVED_IDS : UNPROVED.ids) - account.held
  return Math.min(Math.max(1, pool), account.proved ? own : Math.min(own, inAll(account, pool) - unproved))
}

/** Up to `count` ids in the order they are granted: freed, new, then unused offers. */
async function available(tx: Connection, state: State, { first, last }: IdWork, count: number): Promise<number[]> {
  const freed = async (back: boolean, limit: number): Promise<number[]> =>
    limit <= 0
      ? []
      : (
          await tx.rows(
            `SELECT id FROM os_ids WHERE state = 'free' AND taken_back = ?::bool AND id BETWEEN ? AND ? ORDER BY id LIMIT ?`,
            [back, first, last, limit],
          )
        ).map(([id]) => Number(id))
  const ids = state.released > 0 ? await freed(false, count) : []
  for (let id = state.next; id <= last && ids.length < count; id++) ids.push(id)
  return state.released > 0 ? [...ids, ...(await freed(true, count - ids.length))] : ids
}

type Grants = readonly { readonly id: number; readonly request: IdRequest }[]

async function write(
  tx: Connection,
  state: State,
  { leaseSeconds }: IdWork,
  granted: Grants,
  renewed: Grants,
  keyOf: (request: IdRequest) => string,
): Promise<void> {
  const { now } = state
  const requestColumns = (list: Grants) => [
    list.map(({ request }) => request.address),
    list.map(({ request }) => request.seq),
  ]
  if (granted.length > 0) {
    const fresh = granted.filter(({ id }) => id >= state.next).length
    const expires = granted.map(({ request }) => now + (request.address === null ? leaseSeconds : OFFER_SECONDS))
    const written = await tx.run(
      `INSERT INTO os_ids SELECT t.id, t.state, NULLIF(t.key, ''), t.meta, t.net, t.net, NULL, t.seq, t.request, ${now}, t.pool, false,
         ${now}, ${now}, t.expires
       FROM unnest(?::bigint[], ?::text[], ?::text[], ?::text[], ?::text[], ?::int[], ?::text[], ?::bool[], ?::bigint[])
         AS t(id, state, key, meta, net, seq, request, pool, expires)
       ON CONFLICT (id) DO UPDATE SET state = excluded.state, device_key = excluded.device_key, meta = excluded.meta,
         granted_to = excluded.granted_to, asked_by = excluded.asked_by, addr = NULL, seq = excluded.seq, request = excluded.request,
         requested_at = excluded.requested_at, pool = excluded.pool, taken_back = false, ts = excluded.ts,
         last_seen = excluded.last_seen, lease_expires_at = excluded.lease_expires_at WHERE os_ids.state = 'free'`,
      [
        granted.map(({ id }) => id),
        granted.map(({ request }) => (request.address === null ? 'active' : 'offered')),
        granted.map(({ request }) => (request.pool > 0 ? '' : keyOf(request))),
        granted.map(({ request }) => request.meta.replaceAll('\0', '\u2400')),
        ...requestColumns(granted),
        granted.map(({ request }) => request.request),
        granted.map(({ request }) => String(request.pool > 0)),
        expires,
      ],
    )
    if (written !== granted.length) throw new OsError('STORAGE', `${granted.length - written} ids were in use already`)
    state.next = Math.max(state.next, ...granted.map(({ id }) => id + 1))
    state.allocated += granted.length
    state.released -= granted.length - fresh
  }
  if (renewed.length > 0)
    await tx.run(
      `UPDATE os_ids i SET asked_by = t.net, seq = t.seq, request = t.request, requested_at = ${now}, last_seen = ${now},
         meta = CASE WHEN t.meta = '{}' THEN i.meta ELSE t.meta END,
         lease_expires_at = CASE WHEN i.state = 'offered' THEN ${now + OFFER_SECONDS} ELSE GREATEST(i.lease_expires_at, ${now + leaseSeconds}) END
       FROM unnest(?::bigint[], ?::text[], ?::int[], ?::text[], ?::text[]) AS t(id, net, seq, request, meta) WHERE i.id = t.id`,
      [
        renewed.map(({ id }) => id),
        ...requestColumns(renewed),
        renewed.map(({ request }) => request.request),
        renewed.map(({ request }) => request.meta.replaceAll('\0', '\u2400')),
      ],
    )
}
