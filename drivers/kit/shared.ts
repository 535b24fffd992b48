// Several media on the same hardware: uplink, receiver and dispatch on one bus each have their own medium; the first
// opens the shared hardware and the last closes it. Received answers go to the media that send, all other packets to
// those that listen; if only one kind is open, it gets everything.
//
// Errors: when the hardware is lost, each medium is notified, and the next opening opens it again. A medium whose
// settings differ from those in use is refused (LINK_DOWN, retried, because a reload changes them one by one).
import { isDeepStrictEqual } from 'node:util'
import { closedWhileOpening, OsError } from '../../src/lib/errors'
import type { Logger } from '../../src/lib/logger'
import type { Airtime, LinkCounters, Medium, OpenableEvents, PacketOrigin } from '../../src/links/contracts'
import { deliver, PacketReceiver } from '../../src/links/deliver'
import { ANSWERS } from '../../src/wire/commands'

interface ShareOptions {
  /** name of the link in the supervisor */
  name: string
  mode: 'send' | 'listen'
  /** identifies the hardware within its medium, for example the port */
  key: string
  /** settings that must be the same for all media that share it */
  settings: unknown
  /** makes the shared bus: once per key and settings; it can be opened and closed any number of times */
  make: () => Medium
  logger: Logger
}

/** The bus shared by the media of one key. */
class Hardware {
  readonly open = new Set<SharedMedium>()
  /** the opening in progress or completed; undefined: closed */
  opening: Promise<void> | undefined
  #closing: Promise<void> = Promise.resolve()
  #complaint = ''
  /** counts openings: events of an older opening are ignored */
  #run = 0

  constructor(
    readonly medium: Medium,
    readonly settings: unknown,
  ) {
    medium.onPacket((packet, origin) => this.#packet(packet, origin))
  }

  async enter(member: SharedMedium): Promise<void> {
    this.open.add(member)
    this.opening ??= this.#opened(++this.#run)
    const { opening } = this
    try {
      await opening
    } catch (error) {
      this.open.delete(member)
      throw error
    }
    if (this.#complaint !== '') member.events?.degraded(this.#complaint)
  }

  async leave(member: SharedMedium): Promise<void> {
    if (!this.open.delete(member) || this.open.size > 0) return this.#closing
    this.#end()
    return this.#closing
  }

  async #opened(run: number): Promise<void> {
    await this.#closing
    this.#complaint = ''
    try {
      await this.medium.open({
        lost: reason => {
          if (run !== this.#run) return
          this.#end()
          for (const member of [...this.open]) member.events?.lost(reason)
        },
        degraded: reason => {
          if (run !== this.#run) return
          this.#complaint = reason
          for (const member of this.open) member.events?.degraded(reason)
        },
      })
    } catch (error) {
      if (run === this.#run) this.#end()
      throw error
    }
    if (run !== this.#run) throw closedWhileOpening()
  }

  #end(): void {
    if (!this.opening) return
    this.#run++
    this.opening = undefined
    const closing = this.medium.close()
    // the next opening waits for it, whatever its result; the last user gets its error
    this.#closing = closing
    closing.catch(() => {
      if (this.#closing === closing) this.#closing = Promise.resolve()
    })
  }

  #packet(packet: Uint8Array, origin: PacketOrigin): void {
    const wanted = ANSWERS.has(packet[0]!) ? 'send' : 'listen'
    let handed = false
    for (const member of this.open) {
      if (member.mode !== wanted) continue
      handed = true
      member.receive(packet, origin)
    }
    if (!handed) for (const member of this.open) member.receive(packet, origin)
  }
}

const known = new Map<string, Hardware>()

class SharedMedium extends PacketReceiver implements Medium {
  readonly name: string
  readonly medium: string
  readonly mode: 'send' | 'listen'
  events: OpenableEvents | undefined
  readonly #options: ShareOptions
  readonly #own = { rx: 0, tx: 0, errors: 0 }
  #hardware: Hardware

  constructor(medium: string, options: ShareOptions) {
    super()
    this.name = options.name
    this.medium = medium
    this.mode = options.mode
    this.#options = options
    const others = known.get(this.#place)
    if (others && isDeepStrictEqual(others.settings, options.settings)) this.#hardware = others
    else {
      this.#hardware = new Hardware(options.make(), options.settings)
      if (!others || others.open.size === 0) known.set(this.#place, this.#hardware)
    }
  }

  get #place(): string {
    return `${this.medium} ${this.#options.key}`
  }

  get maxPacket(): number {
    return this.#hardware.medium.maxPacket
  }

  get acknowledges(): boolean | undefined {
    return this.#hardware.medium.acknowledges
  }

  get airtime(): Airtime | undefined {
    return this.#hardware.medium.airtime
  }

  /** Packet counts are of this medium; the hardware's other counters are shared. */
  get counters(): LinkCounters {
    const { errors, dropped, detail } = this.#hardware.medium.counters
    return {
      rx: this.#own.rx,
      tx: this.#own.tx,
      errors: errors + this.#own.errors,
      ...(dropped !== undefined && { dropped }),
      ...(detail && { detail }),
    }
  }

  async open(events: OpenableEvents): Promise<void> {
    const closed = this.close()
    this.events = events
    await closed
    if (this.events === events) {
      this.#join()
      await this.#hardware.enter(this)
    }
    if (this.events === events) return
    if (!this.events) await this.#hardware.leave(this)
    throw closedWhileOpening()
  }

  async close(): Promise<void> {
    this.events = undefined
    await this.#hardware.leave(this)
  }

  onReturn(back: () => void): () => void {
    return this.#hardware.medium.onReturn?.(back) ?? (() => undefined)
  }

  async send(packet: Uint8Array): Promise<boolean> {
    if (!this.events) {
      this.#own.errors++
      return false
    }
    const sent = await this.#hardware.medium.send(packet)
    if (sent) this.#own.tx++
    return sent
  }

  /** Handles one packet of the hardware. An error of the handler affects only this packet. */
  receive(packet: Uint8Array, origin: PacketOrigin): void {
    deliver(packet, origin, this.handler, this.#own, this.#options.logger)
  }

  /** Joins hardware that another medium made with the same settings; throws LINK_DOWN if it is in use with others. */
  #join(): void {
    const { key, settings } = this.#options
    const others = known.get(this.#place)
    if (others === this.#hardware) return
    if (others && isDeepStrictEqual(others.settings, settings)) this.#hardware = others
    else if (others && others.open.size > 0) {
      const [user] = others.open
      throw new OsError('LINK_DOWN', `${key} is open for ${user!.name} with other settings`, {
        hint: `give ${this.name} and ${user!.name} the same options`,
      })
    } else known.set(this.#place, this.#hardware)
  }
}

/** A medium of the shared hardware with that key; see the module head. */
export const sharedMedium = (medium: string, options: ShareOptions): Medium => new SharedMedium(medium, options)
