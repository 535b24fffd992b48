// One Bluetooth adapter, shared by all its users. It scans while there is a listener, makes connections one at a time
// (scanning pauses for a second or two meanwhile), and recovers a scan that has gone silent (R20). The first user opens
// it, the last one closes it.
//
// Errors:
// - The radio cannot be opened: every user that joins gets the reason.
// - The radio is lost: every user gets the reason; the next user that joins opens it again.
// - A remedy against silence fails: the next one is tried. A library that does not open again is a loss.

import type { Clock } from '../../src/lib/clock'
import { counted } from '../../src/lib/counted'
import { asOsError, OsError } from '../../src/lib/errors'
import type { Logger } from '../../src/lib/logger'
import { SerialQueue } from '../../src/lib/serial-queue'
import type { Timers } from '../../src/lib/timers'
import type { BleConnection, BleConnectOptions, BleRadio, Report } from './radio'
import { type RadioRemedy, Silence } from './silence'

type OnReport = (report: Report) => void

export interface AdapterUser {
  /** the adapter is lost: this user must join again */
  lost(reason: string): void
  /** the adapter works but hears nothing; '' when it hears again */
  degraded(reason: string): void
}

interface AdapterOptions {
  /** hci0 … */
  name: string
  radio: BleRadio
  clock: Clock
  timers: Timers
  logger: Logger
  /** the likely cause of a silence, for people; read when a silence is reported */
  suspicion?: () => string
  /** whether the machine has the adapter at all */
  present?: () => boolean
  /** why the adapter may not be opened now; '' if it may */
  taken?: () => string
}

const SILENCE_MS = 60_000
/** delay after another program stopped the scan: an immediate restart could repeat endlessly */
const AGAIN_MS = 1000
/** how often a missing adapter is checked for */
const LOOK_MS = 2000

export class Adapter {
  readonly name: string
  /** totals of all users */
  readonly #tally = { advertisements: 0, scan_restarts: 0, adapter_resets: 0, reopened: 0, disturbed: 0 }
  readonly #options: AdapterOptions
  readonly #users = new Set<AdapterUser>()
  readonly #byAddress = new Map<string, Set<OnReport>>()
  readonly #toAll = new Set<OnReport>()
  #opening: Promise<void> | undefined
  /** runs the steps of the radio one after the other */
  readonly #turns = new SerialQueue()
  #scanning = false
  #silence = new Silence(SILENCE_MS)
  #cancelWatch: () => void = () => undefined
  #cancelAgain: () => void = () => undefined
  #complaint = ''

  constructor(options: AdapterOptions) {
    this.name = options.name
    this.#options = options
  }

  get detail(): Readonly<Record<string, number>> {
    return { ...this.#tally, ...this.#options.radio.detail }
  }

  /** number of addresses with listeners */
  get listeners(): number {
    return this.#byAddress.size + this.#toAll.size
  }

  get inUse(): boolean {
    return this.#opening !== undefined
  }

  /** Opens the radio for the first user. `silenceMs`: shorter than the usual minute. Throws the reason if it cannot be opened. */
  async join(user: AdapterUser, { silenceMs = SILENCE_MS }: { silenceMs?: number } = {}): Promise<void> {
    this.#users.add(user)
    if (silenceMs < this.#silence.afterMs) this.#silence = new Silence(silenceMs)
    this.#opening ??= this.#turns.run(() => this.#open())
    try {
      await this.#opening
    } catch (error) {
      this.#users.delete(user)
      if (this.#users.size === 0) this.#opening = undefined
      throw error
    }
    if (!this.#users.has(user)) throw new OsError('LINK_DOWN', `${this.name} was lost`)
    if (this.#complaint !== '') user.degraded(this.#complaint)
  }

  /** Closes the radio when the last user leaves. */
  async leave(user: AdapterUser): Promise<void> {
    if (!this.#users.delete(user) || this.#users.size > 0) return
    await this.#end()
  }

  /** Calls `back` when a missing adapter is plugged in. Returns the function that ends the watch. */
  onReturn(back: () => void): () => void {
    const { present = () => true, timers } = this.#options
    let cancel = (): void => undefined
    const look = (): void => {
      if (present()) back()
      else cancel = timers.after(LOOK_MS, look)
    }
    if (!present()) cancel = timers.after(LOOK_MS, look)
    return () => cancel()
  }

  /** Reports the advertisements of one address, or of all (null). Returns the function that ends it. */
  listen(address: string | null, onReport: OnReport): () => void {
    const set = address === null ? this.#toAll : (this.#byAddress.get(address) ?? new Set())
    set.add(onReport)
    if (address !== null) this.#byAddress.set(address, set)
    this.#arrange()
    return () => {
      if (!set.delete(onReport)) return
      if (address !== null && set.size === 0 && this.#byAddress.get(address) === set) this.#byAddress.delete(address)
      this.#arrange()
    }
  }

  /** Connects; scanning pauses meanwhile. Throws the errors of BleRadio.connect. */
  connect(options: BleConnectOptions): Promise<BleConnection> {
    return this.#turns.run(async () => {
      if (!this.#opening) throw new OsError('LINK_DOWN', `${this.name} is closed`)
      await this.#stopScan()
      try {
        return await this.#options.radio.connect(options)
      } finally {
        this.#arrange()
      }
    })
  }

  async #open(): Promise<void> {
    const taken = this.#options.taken?.() ?? ''
    if (taken !== '') throw new OsError('LINK_DOWN', taken)
    await this.#options.radio.open({
      report: report => this.#report(report),
      lost: reason => this.#lost(reason),
      disturbed: what => {
        this.#tally.disturbed++
        this.#options.logger.debug(`${this.name}: ${what}, by another program`)
        this.#scanning = false
        this.#cancelAgain()
        this.#cancelAgain = this.#options.timers.after(AGAIN_MS, () => this.#arrange())
      },
    })
    this.#complaint = ''
    this.#arrange()
  }

  #end(): Promise<void> {
    this.#opening = undefined
    this.#quiet()
    return this.#turns.run(async () => {
      if (this.#opening === undefined) await this.#options.radio.close()
    })
  }

  #quiet(): void {
    this.#cancelWatch()
    this.#cancelAgain()
    this.#scanning = false
    this.#complaint = ''
  }

  #lost(reason: string): void {
    const users = [...this.#users]
    this.#users.clear()
    void this.#end()
    for (const user of users) user.lost(reason)
  }

  /** Runs for every advertisement in range: hundreds per second in a busy place. */
  #report(report: Report): void {
    this.#tally.advertisements++
    this.#silence.heard(this.#options.clock.mono())
    if (this.#complaint !== '') this.#complain('')
    for (const onReport of this.#toAll) onReport(report)
    const mine = this.#byAddress.get(report.address)
    if (mine) for (const onReport of mine) onReport(report)
  }

  /** Starts or stops the scan: it runs while there is a listener. */
  #arrange(): void {
    void this.#turns
      .run(async () => {
        if (!this.#opening || this.listeners > 0 === this.#scanning) return
        if (this.listeners === 0) await this.#stopScan()
        else await this.#startScan()
      })
      .catch(error => {
        this.#options.logger.warn(`${this.name}: ${asOsError(error).message}`)
        this.#watch() // a scan that does not start counts as silence
      })
  }

  async #startScan(): Promise<void> {
    this.#silence.heard(this.#options.clock.mono())
    await this.#options.radio.startScan()
    this.#scanning = true
    this.#watch()
  }

  async #stopScan(): Promise<void> {
    if (!this.#scanning) return
    this.#cancelWatch()
    this.#scanning = false
    await this.#options.radio.stopScan()
  }

  #watch(): void {
    const { clock, timers } = this.#options
    this.#cancelWatch()
    this.#cancelWatch = timers.after(Math.max(1, this.#silence.due - clock.mono()), () => {
      if (!this.#opening || this.listeners === 0) return
      const remedy = this.#silence.next(clock.mono())
      if (remedy) void this.#turns.run(() => this.#apply(remedy)).catch(error => this.#lost(asOsError(error).message))
      else this.#watch()
    })
  }

  /** Throws when the adapter cannot be brought back. */
  async #apply(remedy: RadioRemedy): Promise<void> {
    if (!this.#opening) return
    const { radio, logger } = this.#options
    const seconds = Math.round(this.#silence.afterMs / 1000)
    this.#complain(
      `no advertisement for ${seconds} s; restarted ${counted(this.#silence.taken, 'time')}${this.#suspicion()}`,
    )
    logger.debug(`${this.name}: silent, ${remedy}`)
    try {
      this.#scanning = false
      if (remedy === 'reopen') await this.#reopen()
      // the adapter refuses a reset while it has connections: these show that the radio works
      else if (remedy === 'reset' && (await radio.reset())) this.#tally.adapter_resets++
      else {
        this.#tally.scan_restarts++
        await radio.stopScan()
      }
      await radio.startScan()
      this.#scanning = true
    } catch (error) {
      if (remedy === 'reopen') throw error
      logger.warn(`${this.name}: ${remedy} failed: ${asOsError(error).message}`)
    }
    this.#watch()
  }

  async #reopen(): Promise<void> {
    const { radio } = this.#options
    // a silence does not justify cutting live connections
    if (!(await radio.reset())) return
    this.#tally.reopened++
    const complaint = this.#complaint
    await radio.close()
    await this.#open()
    this.#complaint = complaint
  }

  #suspicion(): string {
    return this.#options.suspicion?.() ?? ''
  }

  #complain(reason: string): void {
    this.#complaint = reason
    for (const user of this.#users) user.degraded(reason)
  }
}
