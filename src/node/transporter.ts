// One medium as dispatch uses it: opened at the first packet and kept open. Errors: a failed opening (the next attempt
// opens again; one that hangs is closed); a packet the medium refuses; a lost link (closed; the next packet reopens
// it); a driver that throws. None of them throws to the outside: an attempt returns its error.

import { isDeepStrictEqual } from 'node:util'
import { timeout, within } from '../lib/deadline'
import { asOsError, OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import type { Timers } from '../lib/timers'
import type { Medium, PacketHandler } from '../links/contracts'

/** An enabled medium as callers and dispatch see it. */
export interface Transporter {
  /** the specification's spelling */
  readonly name: string
  /** opens when needed and sends one packet; false if it could not, with `lastError` set. Never throws. */
  send(packet: Uint8Array): Promise<boolean>
  close(): Promise<void>
  readonly lastError: OsError | null
}

/** Why a packet was not sent; `final`: a retry cannot help (an exception ends the attempts). */
interface Failure {
  readonly error: OsError
  readonly final: boolean
}

interface TransporterDeps {
  /** makes the medium; throws NO_DRIVER, CONFIG_INVALID */
  create(options: Record<string, unknown>): Promise<Medium>
  /** why this node must not send a packet; null if it may */
  refusal(packet: Uint8Array): OsError | null
  /** an earlier one that is still closing: the port or serial line is free only after it */
  after: Promise<unknown>
  logger: Logger
  timers: Timers
  onPacket: PacketHandler
}

/** longer than any medium's own time-out for a silent peer */
const OPEN_LIMIT_MS = 30_000
/** pending packets if a packet counts as sent only when the peer has it */
const ACKED_WINDOW = 32

export class LazyTransporter implements Transporter {
  lastError: OsError | null = null
  #opening: Promise<Medium> | undefined
  #window = 1
  #lost = false
  #closed = false

  constructor(
    readonly name: string,
    /** options it was made with */
    readonly options: Record<string, unknown>,
    private readonly deps: TransporterDeps,
  ) {}

  /** number of packets that may be pending without changing their order */
  get window(): number {
    return this.#window
  }

  /** True if it was made with other options, or its link was lost. */
  stale(options: Record<string, unknown>): boolean {
    return this.#lost || !isDeepStrictEqual(options, this.options)
  }

  async send(packet: Uint8Array): Promise<boolean> {
    return (await this.attempt(packet)) === null
  }

  /** One attempt: null when the medium accepted the packet. Never throws. */
  async attempt(packet: Uint8Array): Promise<Failure | null> {
    if (this.#closed) return this.#failed(new OsError('LINK_DOWN', `${this.name} was closed`), false)
    const refusal = this.deps.refusal(packet)
    if (refusal) return this.#failed(refusal, true)
    let medium: Medium
    try {
      medium = await (this.#opening ??= this.#open())
    } catch (thrown) {
      const error = asOsError(thrown, 'NETWORK')
      return this.#failed(error, !error.retryable)
    }
    try {
      if (await medium.send(packet)) return null
      return this.#failed(new OsError('NETWORK', `${this.name} did not accept the packet`), false)
    } catch (thrown) {
      return this.#failed(asOsError(thrown, 'NETWORK'), true)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    const opening = this.#opening
    this.#opening = undefined
    await opening?.then(
      medium => medium.close(),
      () => undefined, // it never opened and was closed then
    )
  }

  #failed(error: OsError, final: boolean): Failure {
    this.lastError = error
    this.deps.logger.warn(`${this.name}: ${error.message}`)
    return { error, final }
  }

  #open(): Promise<Medium> {
    const opening: Promise<Medium> = this.#opened(reason => this.#onLost(opening, reason))
    opening.catch(() => {
      if (this.#opening === opening) this.#opening = undefined
    })
    return opening
  }

  async #opened(lost: (reason: string) => void): Promise<Medium> {
    const { create, after, timers, onPacket } = this.deps
    await after
    const medium = await create(this.options)
    medium.onPacket(onPacket)
    try {
      const opened = medium.open({ lost, degraded: () => undefined })
      await within(timers, OPEN_LIMIT_MS, opened, timeout(`${this.name} did not open`, OPEN_LIMIT_MS))
    } catch (error) {
      await this.#quietly(medium)
      throw error
    }
    this.#lost = false
    this.#window = medium.acknowledges ? ACKED_WINDOW : 1
    return medium
  }

  #onLost(opening: Promise<Medium>, reason: string): void {
    if (this.#opening !== opening) return
    this.#opening = undefined
    this.#lost = true
    this.deps.logger.warn(`${this.name} lost: ${reason}`)
    void opening.then(
      medium => this.#quietly(medium),
      () => undefined, // lost while opening: the attempt that waits for it gets the error
    )
  }

  async #quietly(medium: Medium): Promise<void> {
    await medium.close().catch(error => this.deps.logger.warn(`${this.name}: close: ${asOsError(error).message}`))
  }
}
