// One input: its line, what was seen of it, and its value at a reading. Counting goes by the kernel's numbers of edges, so
// that edges it had to drop are counted too; frequency by the kernel's times. What fails: the line cannot be had (open
// throws), the chip is pulled (`lost`).
import { counted } from '../../src/lib/counted'
import { asOsError, OsError } from '../../src/lib/errors'
import type { Edge, Edges, GpioLines } from '../../src/native/gpio'
import { Debounce } from './debounce'
import { Frequency } from './frequency'
import type { InputOptions } from './gpio-options'
import type { Kept } from './kept'
import { Latch } from './latch'
import { type GpioWorld, refuses, requestPin } from './lines'

interface InputEvents {
  /** mode edge: the level changed */
  changed(): void
  lost(reason: string): void
}

export class Input {
  readonly #options: InputOptions
  readonly #name: string
  readonly #world: GpioWorld
  readonly #frequency: Frequency
  readonly #edge: Edge
  readonly #kept: Kept
  #lines: GpioLines | undefined
  #debounce: Debounce | undefined
  #events: InputEvents | undefined
  #seqno = 0
  /** mode edge */
  #latch = new Latch()
  /** counts openings and closings: lines that come after a close are not for us */
  #run = 0
  #keep: (count: number) => void = () => undefined

  constructor(name: string, options: InputOptions, world: GpioWorld, kept: Kept) {
    const { mode, edge, window_s, timeout_s } = options
    this.#name = name
    this.#options = options
    this.#world = world
    this.#kept = kept
    this.#edge = edge ?? (mode === 'edge' ? 'both' : 'rising')
    this.#frequency = new Frequency({ windowNs: window_s * 1e9, timeoutNs: timeout_s * 1e9 })
  }

  /** Its count goes on over restarts. */
  get counts(): boolean {
    return this.#options.mode === 'counter'
  }

  /** Counts on from what the log has, unless it has counted in this run; `keep` is called with every new count. */
  resume(count: number, keep: (count: number) => void): void {
    if (this.#kept.count === 0 && count > 0) this.#kept.count = count
    this.#keep = keep
    keep(this.#kept.count)
  }

  /** edges in all; goes on over replugging, reloading and restarts */
  get count(): number {
    return this.#kept.count
  }

  /** edges the kernel dropped because they were not read in time */
  get missed(): number {
    return this.#kept.missed + (this.#lines?.missed ?? 0)
  }

  /** Rejects as requestPin does. */
  async open(events: InputEvents): Promise<void> {
    this.#events = events
    const run = ++this.#run
    const lines = await this.#request()
    if (run !== this.#run) {
      await lines.close()
      throw new OsError('LINK_DOWN', `${this.#name} was closed while opening`)
    }
    this.#lines = lines
    this.#kept.closedNs = Number.POSITIVE_INFINITY
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
    // pulses that the kernel has and this process does not know yet
    if (this.counts) this.#lines?.drain()
    this.#events = undefined
    this.#kept.missed = this.missed
    this.#kept.closedNs = this.#world.nowNs()
    const lines = this.#lines
    this.#run++
    this.#lines = undefined
    await lines?.close()
  }

  /** The value now: level, count or Hz. Rejects when the chip is gone, hangs or is closed. */
  async value(): Promise<number> {
    const lines = this.#lines
    // also tells whether the chip is still there, which a line without edges would never say
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

  /** What a test shows besides the value. */
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
    // mode edge needs both: which of them make a reading is decided here
    const edges = mode === 'level' ? {} : { edges: mode === 'edge' ? 'both' : this.#edge }
    this.#debounce = undefined
    const debounceUs = Math.round(debounce_ms * 1000)
    try {
      return await requestPin(this.#world, this.#name, this.#options, { ...request, ...edges, debounceUs })
    } catch (error) {
      if (debounceUs === 0 || !refuses(asOsError(error))) throw error
      // both edges are needed to see how long a level stayed
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
      // what the kernel dropped in between was counted by it
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
    // both kinds come from the kernel here, and those it dropped were of both
    const both = this.#debounce !== undefined || mode === 'edge'
    if (one && both && (this.#edge === 'rising') !== (level === 1)) return
    this.#kept.count += one && both ? Math.ceil(steps / 2) : steps
    this.#keep(this.#kept.count)
    if (mode === 'frequency') this.#frequency.edge(this.count, ns)
    if (mode === 'edge') this.#events?.changed()
  }

  #latched(level: 0 | 1): 0 | 1 {
    const { value, more } = this.#latch.read(level)
    if (more) this.#events?.changed()
    return value
  }
}
