// LoRa as a medium: raw packets on the air, no addresses. Every station with the same settings receives everything, so
// an answer identifies its request by its content; an address names the channel. send() resolves true when the packet
// was transmitted.
import type { Airtime, Medium, OpenableEvents, PacketOrigin } from '../../src/links/contracts'
import { deliver, PacketReceiver } from '../../src/links/deliver'
import type { DutyBook } from './airtime-file'
import { LoraChannel } from './channel'
import type { Reception } from './chip'
import type { DutyCycle } from './duty'
import { LoraRadio, type LoraWorld } from './radio'

interface LoraParts extends LoraWorld {
  readonly duty: DutyCycle
  readonly book: DutyBook | null
  readonly random: () => number
}

const MHZ = 1_000_000

export class LoraMedium extends PacketReceiver implements Medium {
  readonly medium = 'LoRa'
  readonly maxPacket: number
  readonly airtime: Airtime
  readonly #parts: LoraParts
  readonly #counters = { rx: 0, tx: 0, errors: 0 }
  readonly #channel: LoraChannel
  readonly #radio: LoraRadio
  readonly #address: string
  /** of the last received packet */
  #signal: { last_rssi_dbm: number; last_snr_db: number } | undefined
  #events: OpenableEvents | undefined
  /** reasons for `degraded`: the budget, and the chip */
  readonly #complaints = { channel: '', radio: '' }

  constructor(
    readonly name: string,
    parts: LoraParts,
  ) {
    super()
    const { modem, duty, book, clock, random } = parts
    this.#parts = parts
    this.maxPacket = modem.maxPacket
    this.#address = `${modem.frequencyHz / MHZ}MHz/SF${modem.air.spreadingFactor}`
    this.#channel = new LoraChannel({
      ...{ modem, duty, book, clock, random },
      complain: reason => this.#complain('channel', reason),
    })
    this.airtime = this.#channel.airtime
    this.#radio = new LoraRadio({
      ...parts,
      channel: this.#channel,
      onReception: (bytes, reception) => this.#received(bytes, reception),
    })
  }

  get counters(): Medium['counters'] {
    const { duty, clock } = this.#parts
    const usage = duty.usage(clock.mono())
    const { airtime_ms, ...channel } = this.#channel.counters
    return {
      ...this.#counters,
      detail: {
        airtime_ms: Math.round(airtime_ms),
        ...(usage && {
          duty_used_ms: Math.round(usage.usedMs),
          duty_budget_ms: usage.budgetMs,
          duty_used_percent: Math.round((usage.usedMs / usage.budgetMs) * 1000) / 10,
        }),
        ...this.#signal,
        waiting: this.#channel.queue.length,
        ...channel,
        ...this.#radio.counters,
      },
    }
  }

  async open(events: OpenableEvents): Promise<void> {
    this.#events = events
    this.#complaints.channel = this.#complaints.radio = ''
    await this.#radio.open({ lost: events.lost, degraded: reason => this.#complain('radio', reason) })
  }

  async close(): Promise<void> {
    this.#events = undefined
    await this.#radio.close()
    this.#channel.close()
  }

  /** False: too large, not open, queue full, timed out, or the chip failed. */
  async send(packet: Uint8Array): Promise<boolean> {
    const fits = packet.length > 0 && packet.length <= this.maxPacket && this.#events !== undefined
    if (fits) {
      const sent = this.#channel.queue.add(packet, this.#parts.clock.mono())
      this.#radio.wake()
      if (await sent) {
        this.#counters.tx++
        return true
      }
    }
    this.#counters.errors++
    return false
  }

  #received(bytes: Uint8Array, { rssi, snr }: Reception): void {
    this.#signal = { last_rssi_dbm: rssi, last_snr_db: snr }
    const origin: PacketOrigin = {
      medium: this.medium,
      address: this.#address,
      rssi,
      snr,
      reply: packet => this.send(packet),
    }
    deliver(bytes, origin, this.handler, this.#counters, this.#parts.logger)
  }

  #complain(who: 'channel' | 'radio', reason: string): void {
    if (this.#complaints[who] === reason) return
    this.#complaints[who] = reason
    const { channel, radio } = this.#complaints
    this.#events?.degraded([channel, radio].filter(Boolean).join('; '))
  }
}
