// The pure core (decision 0064): readings → finished packet through plans, with the same bytes as Standardizer → Engine → Fusion.
// Bad rows are dropped and listed in lastRejected; if all rows are bad it throws ALL_READINGS_REFUSED; a bad
// device id, state or time throws. A template changes only after its packet is complete.
import { OsError } from '../lib/errors'
import { POW10 } from '../wire/base62'
import { isGoodName, isGoodStatus } from '../wire/names'
import { pyFloat } from '../wire/number'
import { type FrameBatch, PureBatch } from './batch'
import { Engine, type EngineOptions } from './compress'
import type { Core, RejectedRow, Strategy } from './core'
import type { Reading } from './fact'
import { Fusion, type FusionOptions } from './fuse'
import { LOADED, OTHER, PacketPlan } from './plan'
import type { PacketSlab } from './slab'
import { NOW, readsClock, TS } from './templates'
import { resolveUnit, type UnitResolver } from './wireunit'

export interface PureCoreOptions extends EngineOptions, FusionOptions {
  resolver: UnitResolver
  fusion?: Fusion
  /** false: sensors have no ids, so none is sent (dialect `attribute`, payload_switches.SensorId) */
  sensorIds?: boolean
}

const NONE: readonly RejectedRow[] = []
const NO_ROWS: readonly Reading[] = []
/** most plans; one is a few hundred bytes per sensor */
const MAX_PLANS = 4096
const MAX_TIME = 2 ** 48

class PureCore implements Core {
  readonly name: Core['name']
  readonly engine: Engine
  readonly fusion: Fusion
  lastRejected: readonly RejectedRow[] = NONE
  readonly #resolver: UnitResolver
  readonly #timed: boolean
  readonly #sensorIds: boolean
  readonly #batch: FrameBatch
  readonly #plans = new Map<string, PacketPlan[]>()
  #planCount = 0
  #last: PacketPlan | null = null

  constructor(options: PureCoreOptions, name: Core['name'], batchOf: (slab: PacketSlab) => FrameBatch) {
    this.name = name
    this.engine = options.engine ?? options.fusion?.engine ?? new Engine(null, options)
    this.fusion = options.fusion ?? new Fusion(null, { ...options, engine: this.engine })
    this.#resolver = options.resolver
    this.#timed = readsClock(this.fusion.policy)
    this.#sensorIds = options.sensorIds ?? true
    this.#batch = batchOf(this.fusion.slab)
  }

  transmitFast(
    rows: readonly Reading[],
    device: string,
    state: string,
    tMs: number,
    aid: number,
    strategy: Strategy,
  ): Buffer {
    const plan = this.#prepare(rows, device, state, tMs, aid)
    const fusion = this.fusion
    const slab = fusion.slab
    const at = slab.reserve(plan.maxSize)
    const key = fusion.keys === null ? null : fusion.keys.outbound(aid)
    const end = plan.writeFrame(slab.chunk, at, strategy === 'FULL', fusion.policy, key)
    fusion.flush()
    return slab.take(at, end)
  }

  encodeInto(
    out: Uint8Array,
    at: number,
    rows: readonly Reading[],
    device: string,
    state: string,
    tMs: number,
    aid: number,
    strategy: Strategy,
  ): number {
    const plan = this.#prepare(rows, device, state, tMs, aid)
    if (out.length - at < plan.maxSize)
      throw new OsError('PACKET_TOO_LARGE', `${plan.maxSize} bytes may be needed, ${out.length - at} are left`)
    const fusion = this.fusion
    const key = fusion.keys === null ? null : fusion.keys.outbound(aid)
    const end = plan.writeFrame(out, at, strategy === 'FULL', fusion.policy, key)
    fusion.flush()
    return end
  }

  stage(rows: readonly Reading[], device: string, state: string, tMs: number, aid: number, strategy: Strategy): number {
    const plan = this.#prepare(rows, device, state, tMs, aid)
    const { keys, policy } = this.fusion
    return this.#batch.add(plan, strategy === 'FULL', policy, keys === null ? null : keys.outbound(aid))
  }

  get staged(): number {
    return this.#batch.count
  }

  take(): Buffer[] {
    this.fusion.flush()
    return this.#batch.take()
  }

  takeInto(out: Uint8Array, at: number, ends: Float64Array | Int32Array): number {
    this.fusion.flush()
    return this.#batch.takeInto(out, at, ends)
  }

  /** The plan with the rows loaded and a valid template. */
  #prepare(readings: readonly Reading[], device: string, state: string, tMs: number, aid: number): PacketPlan {
    const rows = this.#sensorIds ? readings : NO_ROWS
    if (!(tMs >= 0 && tMs < MAX_TIME)) throw new OsError('BAD_TIME', `time ${tMs} ms cannot be sent`)
    this.lastRejected = NONE
    const last = this.#last
    let plan: PacketPlan | null = null
    if (
      last !== null &&
      last.device === device &&
      last.state === state &&
      last.aid === aid &&
      last.count === rows.length
    ) {
      if (last.load(rows) === LOADED) plan = last
    }
    plan ??= this.#find(rows, device, state, aid)
    const template = plan.template
    if (template?.alive) plan.store!.touch(template)
    else {
      plan.store = this.fusion.sendStore(aid)
      plan.template = this.fusion.sendTemplate(aid, plan.signature, plan.count)
    }
    plan.times[TS] = tMs
    if (this.#timed) plan.times[NOW] = this.fusion.clock.mono()
    this.#last = plan
    return plan
  }

  #find(rows: readonly Reading[], device: string, state: string, aid: number): PacketPlan {
    const plans = this.#plans.get(device)
    for (let k = 0; plans && k < plans.length; k++) {
      const plan = plans[k]!
      if (plan.state !== state || plan.aid !== aid || plan.count !== rows.length) continue
      const loaded = plan.load(rows)
      if (loaded === LOADED) return plan
      if (loaded !== OTHER) return this.#without(rows, device, state, aid)
    }
    if (!isGoodName(device)) throw new OsError('BAD_ID', `device id ${JSON.stringify(device)} cannot be sent`)
    if (!isGoodName(state)) throw new OsError('BAD_ID', `device status ${JSON.stringify(state)} cannot be sent`)
    if (rows.some(row => this.#judge(row, 0) !== null || typeof row[2] !== 'number'))
      return this.#without(rows, device, state, aid)
    const plan = new PacketPlan(
      this.engine,
      this.#resolver,
      aid,
      device,
      state,
      rows.map(row => row[0]),
    )
    if (plan.load(rows) !== LOADED) throw new OsError('INTERNAL', 'a judged row was refused')
    if (this.#planCount >= MAX_PLANS) {
      this.#plans.clear()
      this.#planCount = 0
    }
    this.#planCount++
    const list = this.#plans.get(device)
    if (list) list.push(plan)
    else this.#plans.set(device, [plan])
    return plan
  }

  /** Drops the bad rows and continues with the others. */
  #without(rows: readonly Reading[], device: string, state: string, aid: number): PacketPlan {
    const rejected: RejectedRow[] = []
    const good: Reading[] = []
    rows.forEach((row, index) => {
      const reason = this.#judge(row, index)
      if (reason) rejected.push(reason)
      else good.push(typeof row[2] === 'number' ? row : [row[0], row[1], this.#number(row[2])!, row[3]])
    })
    if (good.length === 0)
      throw new OsError('ALL_READINGS_REFUSED', `no reading of ${device} can be sent: ${rejected[0]!.reason}`, {
        details: { rejected },
      })
    const plan = this.#find(good, device, state, aid)
    this.lastRejected = rejected
    return plan
  }

  /** Dialect `attribute` accepts the same numbers as the reference. */
  #number(value: unknown): number | undefined {
    if (typeof value === 'number') return value
    return this.engine.unitDialect === 'attribute' ? pyFloat(value) : undefined
  }

  /** Why a row cannot be sent, or null. */
  #judge(row: Reading, index: number): RejectedRow | null {
    const no = (code: RejectedRow['code'], reason: string): RejectedRow => ({ index, code, reason })
    if (!Array.isArray(row) || row.length !== 4) return no('BAD_READING', 'a reading has four parts')
    const [id, status, raw, unit] = row as unknown as readonly unknown[]
    if (!isGoodName(id)) return no('BAD_ID', `sensor id ${JSON.stringify(id)} cannot be sent`)
    if (!isGoodStatus(status)) return no('BAD_ID', `status ${JSON.stringify(status)} cannot be sent`)
    const value = this.#number(raw)
    if (value === undefined || !Number.isFinite(value)) return no('BAD_READING', `value ${String(raw)} is no number`)
    const conversion = resolveUnit(this.#resolver, unit)
    if (!conversion) return no('UNKNOWN_UNIT', `unit ${JSON.stringify(unit)} is not known`)
    const x = value * conversion.factor + conversion.offset
    const { unitDialect, precision, pickers } = this.engine
    if (unitDialect === 'attribute' ? Math.abs(x) < 2 ** 63 / POW10[precision]! : pickers.fits(conversion.canonical, x))
      return null
    return no('E_PRECISION', `${value} ${String(unit)} cannot be sent with ${this.engine.precision} decimals`)
  }
}

/** The pure core over its own Fusion, or one passed in; it shares templates with that Fusion's runEngine. */
export const createPureCore = (options: PureCoreOptions): Core =>
  new PureCore(options, 'pycore', slab => new PureBatch(slab))

/** A core whose batches are made elsewhere; everything else is the pure core. */
export const coreWithBatch = (
  options: PureCoreOptions,
  name: Core['name'],
  batchOf: (slab: PacketSlab) => FrameBatch,
): Core => new PureCore(options, name, batchOf)
