// One input: its line, its edges, and its value at a reading. Counters use the kernel's edge numbers, so that edges the
// kernel dropped are counted too; frequencies use the kernel's timestamps. Errors: the line cannot be opened (open
// throws); the chip is unplugged (`lost`).
import { counted } from '../../src/lib/counted'
import { asOsError, OsError } from '../../src/lib/errors'
import type { Edge, Edges, GpioLines } from '../../src/native/gpio'
import { Debounce } from './debounce'
import { Frequency } from './frequency'
import type { InputOptions } from './gpio-options'
import { Latch } from './latch'
import { type GpioWorld, refuses, requestPin } from './lines'
import type { PinState } from './pin-state'

interface InputEvents {
  /** called in mode edge when the level changed */
  changed(): void
  lost(reason: string): void
}

export class GpioInput {
  readonly #options: InputOptions
  readonly #name: string
  readonly #world: GpioWorld
  readonly #frequency: Frequency
  readonly #edge: Edge
  readonly #state: PinState
  #lines: GpioLines | undefined
  #debounce: Debounce | undefined
  #events: InputEvents | undefined
  #seqno = 0
  /** used in mode edge */
  #latch = new Latch()
  /** counts openings and closings, to discard lines that arrive after a close */
  #run = 0
  #keep: (count: number) => void = () => undefined

  constructor(name: string, options: InputOptions, world: GpioWorld, state: PinState) {
    const { mode, edge, window_s, timeout_s } = options
    this.#name = name
    this.#options = options
    this.#world = world
    this.#state = state
    this.#edge = edge ?? (mode === 'edge' ? 'both' : 'rising')
    this.#frequency = new Frequency({ windowNs: window_s * 1e9, timeoutNs: timeout_s * 1e9 })
  }

  /** True if its count continues over restarts. */
  get counts(): boolean {
    return this.#options.mode === 'counter'
  }

  /** Continues from the logged count, unless this run has counted already; `keep` is called with every new count. */
  resume(count: number, keep: (count: number) => void): void {
    if (this.#state.count === 0 && count > 0) this.#state.count = count
    this.#keep = keep
    keep(this.#state.count)
  }

  /** total edges; continues over replugging, reloads and restarts */
  get count(): number {
    return this.#state.count
  }

  /** edges the kernel dropped because they were not read in time */
  get missed(): number {
    return this.#state.missed + (this.#lines?.missed ?? 0)
  }

  /** Rejects like requestPin. */
  async open(events: InputEvents): Promise<void> {
    this.#events = events
    const run = ++this.#run
    const lines = await this.#request()
    if (run !== this.#run) {
      await lines.close()
      throw new OsError('LINK_DOWN', `${this.#name} was closed while opening`)
    }
    this.#lines = lines
    this.#state.closedNs = Number.POSITIVE_INFINITY
    this.#seqno = 0
    this.#latch = new Latch()
    this.#frequency.reset()
    if (this.#options.mode !== 'level' || this.#debounce)
      lines.onEdges(
        edges => this.#take(edges),
        error => events.lost(`${this.#name}: ${error.message}`),
      )
  }

  /** Never rejects. */
  async close(): Promise<void> {
    // reads pulses that are still in the kernel's queue
    if (this.counts) this.#lines?.drain()
    this.#events = undefined
    this.#state.missed = this.missed
    this.#state.closedNs = this.#world.nowNs()
    const lines = this.#lines
    this.#run++
    this.#lines = undefined
    await lines?.close()
  }

  /** The value now: level, count or Hz. Rejects when the chip is unplugged, hangs or is closed. */
  async value(): Promise<number> {
    const lines = this.#lines
    // also detects an unplugged chip, which a line without edges would never report
    const level = (((await lines?.values()) ?? 0) & 1) as 0 | 1
    if (!lines || this.#lines !== lines) throw new OsError('LINK_DOWN', `${this.#name} is not open`)
    lines.drain()
    const now = this.#world.nowNs()
    if (this.#debounce?.settle(now)) this.#changed(this.#debounce.level, now)
    switch (this.#options.mode) {
      case 'counter':
        return this.count
      case 'frequency':
        return this.#frequency.at(now)
      case 'edge':
        return this.#latched(this.#debounce?.level ?? level)
      default:
        return this.#debounce?.level ?? level
    }
  }

  /** The additional text of a test. */
  raw(value: number): string {
    const { mode } = this.#options
    return mode === 'level'
      ? `level ${value}`
      : mode === 'edge'
        ? `level ${value}, ${counted(this.count, 'edge')}`
        : counted(this.count, 'edge')
  }

  async #request(): Promise<GpioLines> {
    const { debounce_ms, mode, bias, active_low } = this.#options
    const request = {
      direction: 'input' as const,
      consumer: `os-node ${this.#name}`,
      active_low,
      ...(bias && { bias }),
    }
    // mode edge needs both edges: this class decides which of them make a reading
    const edges = mode === 'level' ? {} : { edges: mode === 'edge' ? 'both' : this.#edge }
    this.#debounce = undefined
    const debounceUs = Math.round(debounce_ms * 1000)
    try {
      return await requestPin(this.#world, this.#name, this.#options, { ...request, ...edges, debounceUs })
    } catch (error) {
      if (debounceUs === 0 || !refuses(asOsError(error))) throw error
      // both edges are needed to know how long a level lasted
      const lines = await requestPin(this.#world, this.#name, this.#options, { ...request, edges: 'both' })
      try {
        this.#debounce = new Debounce(debounce_ms * 1e6, ((await lines.values()) & 1) as 0 | 1)
      } catch (gone) {
        await lines.close()
        throw gone
      }
      return lines
    }
  }

  #take(edges: Edges): void {
    for (let k = 0; k < edges.count; k++) {
      const level = edges.rising(k) ? 1 : 0
      const seqno = edges.seqno(k)
      // counts the edges that the kernel dropped in between
      const steps = (seqno - this.#seqno) >>> 0
      this.#seqno = seqno
      const ns = edges.ns(k)
      if (!this.#debounce) this.#changed(level, ns, steps)
      else if (this.#debounce.edge(level, ns)) this.#changed(this.#debounce.level, ns)
    }
  }

  #changed(level: 0 | 1, ns: number, steps = 1): void {
    const { mode } = this.#options
    if (mode === 'edge') this.#latch.changed(level, steps)
    const one = this.#edge !== 'both'
    // the kernel delivers both kinds of edge here, and the dropped ones were of both kinds
    const both = this.#debounce !== undefined || mode === 'edge'
    if (one && both && (this.#edge === 'rising') !== (level === 1)) return
    this.#state.count += one && both ? Math.ceil(steps / 2) : steps
    this.#keep(this.#state.count)
    if (mode === 'frequency') this.#frequency.edge(this.count, ns)
    if (mode === 'edge') this.#events?.changed()
  }

  #latched(level: 0 | 1): 0 | 1 {
    const { value, more } = this.#latch.read(level)
    if (more) this.#events?.changed()
    return value
  }
}
