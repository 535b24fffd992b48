// Packets of a node in batches (decision 0064), on the native core with engine_settings.tx_batch_enabled: transmitBatch makes its
// items in parts, and enqueue collects readings until there are tx_batch_max_items or the oldest is tx_batch_window_ms
// old. Otherwise each packet is made immediately.
//
// Errors: in enqueue, the promise of an item that cannot be sent rejects, the others continue. transmitBatch throws at
// the first such item, as it does without batches; packets made before it are lost.
import { isAssigned } from '../lib/assigned-id'
import type { Clock } from '../lib/clock'
import { OsError } from '../lib/errors'
import type { Timers } from '../lib/timers'
import type { Reading } from '../pipeline/fact'
import type { NodeTransmitter, Staged } from './transmitter'
import type { BatchCall, BatchItem, BatchMetrics, TransmitResult } from './types'

interface Settings {
  readonly tx_batch_enabled: boolean
  readonly tx_batch_window_ms: number
  readonly tx_batch_max_items: number
}

interface BatchesParts {
  readonly transmitter: NodeTransmitter
  /** the device of an item that names none */
  readonly device: () => string
  /** the sender id of its packets; throws NO_ASSIGNED_ID */
  readonly sender: (device: string) => number
  readonly clock: Clock
  readonly timers: Timers
}

interface QueuedCall {
  readonly call: BatchCall
  readonly done: (result: TransmitResult) => void
  readonly failed: (error: unknown) => void
}

type Item = BatchItem | readonly Reading[]

const itemOf = (item: Item): BatchItem =>
  Array.isArray(item) ? { sensors: item as readonly Reading[] } : (item as BatchItem)

/** The sender id of packets. Throws NO_ASSIGNED_ID. */
export function senderId(aid: number, device: string): number {
  if (isAssigned(aid)) return aid
  const problem = `[transmit] Device '${device}' has no assigned physical ID. Call ensure_id() first.`
  throw new OsError('NO_ASSIGNED_ID', problem)
}

/** items between two checks of the clock */
const STEP = 16

export class NodeBatches {
  /** of the last batch; null before the first */
  metrics: BatchMetrics | null = null
  readonly #parts: BatchesParts
  readonly #enabled: boolean
  readonly #windowMs: number
  readonly #maxItems: number
  #waiting: QueuedCall[] = []
  #cancel: (() => void) | null = null

  /** `settings`: engine_settings; `native`: the node has the native core */
  constructor(settings: Settings, native: boolean, parts: BatchesParts) {
    this.#parts = parts
    this.#enabled = native && settings.tx_batch_enabled
    this.#windowMs = settings.tx_batch_window_ms
    this.#maxItems = settings.tx_batch_max_items
  }

  /** All items; on the native core in parts of at most maxItems and about windowMs. */
  transmit(items: readonly Item[], common: Partial<BatchItem>): TransmitResult[] {
    if (!this.#enabled) return items.map(item => this.#atOnce({ ...common, ...itemOf(item) }))
    const { transmitter, clock } = this.#parts
    this.flush()
    const results: TransmitResult[] = []
    let part: Staged[] = []
    let start = clock.mono()
    const finish = (): void => {
      for (const result of this.#settle(part, start)) results.push(result)
      part = []
      start = clock.mono()
    }
    try {
      for (const item of items) {
        part.push(transmitter.stage(this.#call({ ...common, ...itemOf(item) })))
        const old = this.#windowMs === 0 || (part.length % STEP === 0 && clock.mono() - start >= this.#windowMs)
        if (old || part.length >= this.#maxItems) finish()
      }
      if (part.length > 0) finish()
    } finally {
      transmitter.dropStaged()
    }
    return results
  }

  /** The time of a packet is that of the call; do not change the readings until the promise settles. */
  async enqueue(reading: BatchItem | Reading | readonly Reading[]): Promise<TransmitResult> {
    const single = Array.isArray(reading) && typeof reading[0] === 'string'
    const item = single ? { sensors: [reading as unknown as Reading] } : itemOf(reading as Item)
    if (!this.#enabled) return this.#atOnce(item)
    const call = this.#call(item)
    return new Promise((done, failed) => {
      this.#waiting.push({ call, done, failed })
      if (this.#windowMs === 0 || this.#waiting.length >= this.#maxItems) this.flush()
      else this.#cancel ??= this.#parts.timers.after(this.#windowMs, () => this.flush())
    })
  }

  #atOnce(item: Partial<BatchItem>): TransmitResult {
    const { sensors = [], device_id, device_status, ...options } = item
    const device = device_id ?? this.#parts.device()
    const aid = this.#parts.sender(device)
    return this.#parts.transmitter.transmit(sensors, device, device_status ?? 'ONLINE', options, aid)
  }

  #call({ sensors = [], device_id, device_status, ...options }: Partial<BatchItem>): BatchCall {
    const device = device_id ?? this.#parts.device()
    const aid = this.#parts.sender(device)
    const tMs = this.#parts.transmitter.timeOf(options, aid)
    return { sensors, device, status: device_status ?? 'ONLINE', options, aid, tMs }
  }

  /** Makes the packets of everything queued. */
  flush(): void {
    this.#cancel?.()
    this.#cancel = null
    if (this.#waiting.length === 0) return
    const { transmitter, clock } = this.#parts
    const waiting = this.#waiting
    this.#waiting = []
    const start = clock.mono()
    const staged: Staged[] = []
    const owners: QueuedCall[] = []
    for (const item of waiting) {
      try {
        staged.push(transmitter.stage(item.call))
        owners.push(item)
      } catch (error) {
        item.failed(error)
      }
    }
    for (const [k, result] of this.#settle(staged, start).entries()) owners[k]!.done(result)
  }

  #settle(staged: readonly Staged[], start: number): TransmitResult[] {
    const { transmitter, clock } = this.#parts
    const between = clock.mono()
    const results = transmitter.settle(staged)
    this.metrics = { count: staged.length, stage_timing_ms: { plan: between - start, encode: clock.mono() - between } }
    return results
  }
}
