// The server's side of identity: answers ID_REQUEST and ID_POOL_REQ with an allocator (docs/protocol.md "Getting an id").
//
// Errors: without an allocator, with an exhausted pool or an unreadable store the device is answered NACK. If a reply is
// lost, the same bytes from the same address within seconds get the same ids, so that a repeated request takes none twice
// (only a hash is kept). Each result has `durable`, which settles when the ids are on flash: the response must not be sent
// before.

import { createHash } from 'node:crypto'
import type { Clock } from '../../lib/clock'
import { asOsError } from '../../lib/errors'
import { LruMap } from '../../lib/lru-map'
import { COMMAND } from '../../wire/commands'
import { buildIdAssign, buildIdPoolResponse, buildNack, controlSeq, parsePoolCount } from '../control'
import { tolerantObject } from '../pythonjson'

/** The envelope every received packet becomes (docs/protocol.md "Getting an id"). */
export interface DispatchResult {
  type: 'DATA' | 'CTRL' | 'UNKNOWN' | 'ERROR' | 'IGNORED'
  cmd: number
  result: Record<string, unknown>
  response: Uint8Array | null
  /** settles when `response` may be sent; absent: immediately */
  durable?: Promise<void>
  /** settles with the response if it is not known yet; `response` is null then */
  later?: Promise<Uint8Array>
}

/** The sender of a request for ids, and the request's number. */
export interface Asker {
  readonly address: string
  readonly seq: number
}

/** The required part of the ID allocator, or of the quotas in front of it, which need the sender. */
export interface IdSource {
  allocateId(meta: Record<string, unknown>, asker?: Asker | null): number
  allocatePool(count: number, meta: Record<string, unknown>, asker?: Asker | null): number[]
  /** whether an answer of that size may be sent there now */
  mayAnswer?(address: string, bytes: number): boolean
  /** an ACK with that number came from that address */
  acknowledged?(seq: number, address: string): void
  isAllocated(id: number): boolean
  touch(id: number, addr: string | null): boolean
  commit(): Promise<void>
}

/** A request of a device: `pool` ids, or one for itself (0). `raw`: its bytes. */
export interface IdWish {
  readonly raw: Uint8Array
  readonly meta: Record<string, unknown>
  readonly asker: Asker | null
  readonly pool: number
}

/** An allocator shared with other receivers: its ids are known and durable only later. */
export interface SharedIdSource extends Pick<IdSource, 'mayAnswer' | 'acknowledged' | 'touch'> {
  /**
   * Rejects with ID_QUOTA, ID_POOL_EXHAUSTED, and the errors of the database. The same bytes of the same address get the same
   * ids.
   */
  request(wish: IdWish): Promise<readonly number[]>
}

const POOL_LIMIT = 256
/** a request with more JSON than this is refused: it would be stored in the allocator's file */
const META_LIMIT = 4096
/** for a pool request: it is stored with each of its ids */
const POOL_META_LIMIT = 512
/** errors reported to a device by name */
const NAMED_CODES: ReadonlySet<string> = new Set(['ID_POOL_EXHAUSTED', 'ID_STORE_FULL', 'ID_QUOTA'])
/** a repeated request within this time gets the same ids */
const REPEAT_MS = 15_000
const REPEATS_KEPT = 4096
/** size of ID_ASSIGN with a time, and of the largest NACK */
const ASSIGN_BYTES = 24

/** An address as text: `host:port` of a pair, else unchanged. */
export const addressText = (addr: unknown): string | null =>
  addr === null || addr === undefined ? null : Array.isArray(addr) ? addr.join(':') : String(addr)

export class IdService {
  readonly #allocator: IdSource | SharedIdSource | null
  readonly #clock: Clock
  readonly #serverTime: () => number
  readonly #repeats = new LruMap<string, { ids: number[]; at: number }>(REPEATS_KEPT)

  /** `serverTime`: sent to devices with their id, UNIX seconds */
  constructor(allocator: IdSource | SharedIdSource | null, clock: Clock, serverTime: () => number) {
    this.#allocator = allocator
    this.#clock = clock
    this.#serverTime = serverTime
  }

  onRequest(raw: Uint8Array, addr: unknown): DispatchResult {
    const cmd = COMMAND.ID_REQUEST
    const seq = controlSeq(raw)
    const allocator = this.#allocator
    if (!allocator) return refused(cmd, seq, 'No allocator', 'NO_ALLOCATOR')
    const asker = askerOf(addr, seq)
    if (!mayAnswer(allocator, asker, ASSIGN_BYTES)) return unanswered(cmd)
    if (raw.length - 3 > META_LIMIT) return refused(cmd, seq, 'Device metadata too large', 'META_TOO_LARGE')
    if ('request' in allocator) {
      const meta = tolerantObject(raw.subarray(3))
      return requested(cmd, seq, allocator.request({ raw, meta, asker, pool: 0 }), 'ID_ALLOC_FAILED', ids =>
        buildIdAssign(seq, ids[0]!, this.#serverTime()),
      )
    }
    try {
      const ids = this.#once(allocator, raw, addr, () => [allocator.allocateId(tolerantObject(raw.subarray(3)), asker)])
      const response = buildIdAssign(seq, ids[0]!, this.#serverTime())
      const result = { status: 'ASSIGNED', assigned_id: ids[0]!, addr }
      return { type: 'CTRL', cmd, result, response, durable: onFlash(allocator) }
    } catch (error) {
      const { code, message } = asOsError(error)
      return refused(cmd, seq, message, NAMED_CODES.has(code) ? code : 'ID_ALLOC_FAILED')
    }
  }

  onPoolRequest(raw: Uint8Array, addr: unknown): DispatchResult {
    const cmd = COMMAND.ID_POOL_REQ
    const seq = controlSeq(raw)
    const allocator = this.#allocator
    const none = 'Cannot allocate pool'
    if (!allocator || raw.length - 5 > POOL_META_LIMIT) return refused(cmd, seq, none, 'POOL_ALLOC_FAILED')
    const count = Math.min(POOL_LIMIT, parsePoolCount(raw))
    const asker = askerOf(addr, seq)
    if (!mayAnswer(allocator, asker, Math.max(ASSIGN_BYTES, 5 + 4 * count))) return unanswered(cmd)
    if ('request' in allocator) {
      const meta = tolerantObject(raw.subarray(5))
      return requested(cmd, seq, allocator.request({ raw, meta, asker, pool: count }), 'POOL_ALLOC_FAILED', ids =>
        buildIdPoolResponse(seq, ids),
      )
    }
    try {
      const allocate = (): number[] => allocator.allocatePool(count, tolerantObject(raw.subarray(5)), asker)
      const pool = this.#once(allocator, raw, addr, allocate)
      if (pool.length === 0) return refused(cmd, seq, none, 'POOL_ALLOC_FAILED')
      const result = { status: 'POOL_ASSIGNED', pool, addr }
      return { type: 'CTRL', cmd, result, response: buildIdPoolResponse(seq, pool), durable: onFlash(allocator) }
    } catch (error) {
      return refused(cmd, seq, asOsError(error).message, 'POOL_ALLOC_FAILED')
    }
  }

  /** A device acknowledged the ids of request `seq`. */
  onAck(seq: number, addr: unknown): void {
    const asker = askerOf(addr, seq)
    if (asker) this.#allocator?.acknowledged?.(seq, asker.address)
  }

  /** The ids of a request; the same ids if the same bytes recently came from the same address. */
  #once(allocator: IdSource, raw: Uint8Array, addr: unknown, allocate: () => number[]): number[] {
    const from = addressText(addr)
    if (from === null) return allocate()
    const key = createHash('sha1').update(`${from} `).update(raw).digest('base64')
    const now = this.#clock.mono()
    const earlier = this.#repeats.get(key)
    if (earlier && now - earlier.at < REPEAT_MS && earlier.ids.every(id => allocator.isAllocated(id)))
      return earlier.ids
    const ids = allocate()
    this.#repeats.set(key, { ids, at: now })
    return ids
  }
}

function askerOf(addr: unknown, seq: number): Asker | null {
  const address = addressText(addr)
  return address === null ? null : { address, seq }
}

const mayAnswer = (ids: Pick<IdSource, 'mayAnswer'>, asker: Asker | null, bytes: number): boolean =>
  asker === null || (ids.mayAnswer?.(asker.address, bytes) ?? true)

/** The answer is sent after the database has returned the ids, or an error. */
function requested(
  cmd: number,
  seq: number,
  ids: Promise<readonly number[]>,
  failed: string,
  answer: (ids: readonly number[]) => Uint8Array,
): DispatchResult {
  const later = ids.then(answer, error => {
    const { code } = asOsError(error)
    return buildNack(seq, cmd === COMMAND.ID_REQUEST && NAMED_CODES.has(code) ? code : failed)
  })
  return { type: 'CTRL', cmd, result: { status: 'PENDING' }, response: null, later }
}

const unanswered = (cmd: number): DispatchResult => ({
  type: 'CTRL',
  cmd,
  result: { status: 'REJECTED', reason: 'too many answers for now' },
  response: null,
})

const refused = (cmd: number, seq: number, reason: string, nack: string): DispatchResult => ({
  type: 'CTRL',
  cmd,
  result: { status: 'REJECTED', reason },
  response: buildNack(seq, nack),
})

/** Settles when the ids just assigned are on flash. */
function onFlash(allocator: IdSource): Promise<void> {
  const durable = allocator.commit()
  // a caller that only uses the envelope must not crash the process when the disk fails
  durable.catch(() => undefined)
  return durable
}
