// Lines that a test drives, as the kernel would, and a source on them.
import { gpioOptions } from '../../../../drivers/gpio/gpio-options'
import { GpioSource } from '../../../../drivers/gpio/gpio-source'
import type { GpioWorld } from '../../../../drivers/gpio/lines'
import { OsError } from '../../../../src/lib/errors'
import { checkOptions } from '../../../../src/links/driver-options'
import type { EdgeHandler, GpioLines, LinesOptions } from '../../../../src/native/gpio'
import { ManualClock, ManualTimers } from '../../../lib/manual'

/** Lines that a test drives, as the kernel would: each request by the line's name. */
export class FakeGpio implements GpioWorld {
  now = 1e15
  readonly asked: (LinesOptions & { name: string })[] = []
  readonly levels = new Map<string, 0 | 1>()
  /** throws for a matching request */
  refuse: (options: LinesOptions) => string | undefined = () => undefined
  gone = false
  /** open requests */
  open = 0
  /** edges that the kernel dropped, on lines requested from now on */
  missed = 0
  onSet: (name: string, value: 0 | 1) => void = () => undefined
  /** edges queued in the kernel and not read yet */
  late: () => void = () => undefined
  readonly #heard = new Map<string, EdgeHandler>()
  readonly #seqno = new Map<string, number>()

  resolve(spec: unknown) {
    return { chip: String((spec as { pin: string }).pin), line: 0, name: 'x' }
  }
  consumer(): string {
    return 'spi0 CS0'
  }
  nowNs(): number {
    return this.now
  }
  async request(name: string, options: LinesOptions): Promise<GpioLines> {
    const errno = this.refuse(options)
    if (errno) throw new OsError('LINK_DOWN', `request ${errno}`, { details: { errno } })
    this.asked.push({ ...options, name })
    this.#seqno.delete(name)
    if (options.direction === 'output') this.levels.set(name, options.initial?.[0] ?? 0)
    this.open++
    let open = true
    const values = async (): Promise<number> => {
      if (this.gone) throw new OsError('NOT_FOUND', 'ENODEV')
      return this.levels.get(name) ?? 0
    }
    const lines = {
      missed: this.missed,
      values,
      set: async (_: number, value: 0 | 1) => {
        this.levels.set(name, value)
        this.onSet(name, value)
      },
      onEdges: (handler: EdgeHandler) => this.#heard.set(name, handler),
      drain: () => this.late(),
      close: async () => {
        if (open) this.open--
        open = false
        this.#heard.delete(name)
      },
    }
    return lines as unknown as GpioLines
  }
  /** `dropped` edges before it were lost by the kernel */
  edge(name: string, level: 0 | 1, dropped = 0): void {
    this.levels.set(name, level)
    const seqno = (this.#seqno.get(name) ?? 0) + 1 + dropped
    this.#seqno.set(name, seqno)
    const [ns, edge] = [this.now, level === 1]
    const edges = { count: 1, ns: () => ns, rising: () => edge, line: () => 0, seqno: () => seqno }
    this.#heard.get(name)?.(edges as never)
  }
}

export const events = { lost: () => undefined, degraded: () => undefined }

export function make(options: object, world = new FakeGpio()) {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const source = new GpioSource('shed', checkOptions(gpioOptions, options, 'shed'), { world, timers })
  const value = async (k = 0): Promise<number | null | undefined> => (await source.read())[k]?.[2]
  return { world, timers, source, value }
}
