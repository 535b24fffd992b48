// One SX127x in operation: receives continuously, sends when channel and regulations allow, and monitors the chip. A
// single loop makes every transfer, so transfers never overlap on the bus; edges of DIO0, packets to send, and timers wake it.
//
// Errors:
// - A missing edge is found by polling; the link continues, degraded.
// - While the channel is busy or the budget is used up, packets wait until they time out.
// - A packet overwritten in the chip before it was read is counted (`overwritten`).
// - A flag that does not clear, a register or mode that reads back differently, a wrong version, a transmission that
//   does not end, a receiver whose noise does not change: the chip is reset and set up again (`reinits` counts it,
//   `detail` has the reasons).
// - When that fails three times, or the bus does not answer, the link is lost with the reason, and the supervisor
//   reopens it.

import type { Clock } from '../../src/lib/clock'
import { asOsError, closedWhileOpening, OsError } from '../../src/lib/errors'
import type { Logger } from '../../src/lib/logger'
import { sleep, type Timers } from '../../src/lib/timers'
import { nextTurn } from '../../src/lib/yield'
import type { OpenableEvents } from '../../src/links/contracts'
import { airtimeMs } from './airtime'
import type { LoraChannel } from './channel'
import { ChipFault, LoraChip, type Reception } from './chip'
import type { InputPin, OutputPin, RadioHardware, Spi } from './hardware'
import type { LoraOptions } from './lora-options'
import type { Modem } from './modem'
import { IRQ } from './registers'

/** The parts from which a medium and its radio are made. */
export interface LoraWorld {
  readonly hardware: RadioHardware
  readonly modem: Modem
  readonly options: LoraOptions
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: Logger
}

interface RadioParts extends LoraWorld {
  readonly channel: LoraChannel
  /** `bytes` are valid during the call */
  readonly onReception: (bytes: Uint8Array, reception: Reception) => void
}

/** attempts to set up a faulty chip before the link is lost, and the pause after each */
const REVIVALS = 3
const REVIVAL_DELAY_MS = 500
/** data sheet 7.2.2: 100 us low, then 5 ms; ten times as long is harmless and safe on a busy machine */
const RESET_LOW_MS = 5
const RESET_READY_MS = 50
/**
 * Equal noise samples before the receiver is tested at the least gain: on a quiet channel they occur by chance every
 * half minute, so they do not prove that the receiver is deaf. SAMPLES_PER_CHECK is the number of samples per check.
 */
const STILL_SAMPLES = 12
const SAMPLES_PER_CHECK = 6
const LONGEST_SLEEP_MS = 60_000

export class LoraRadio {
  readonly counters = {
    reinits: 0,
    crc_errors: 0,
    overwritten: 0,
    spi_errors: 0,
    missed_edges: 0,
    frequency_error_hz: 0,
    fault_version: 0,
    fault_calibration: 0,
    fault_register: 0,
    fault_mode: 0,
    fault_flags: 0,
    fault_deaf: 0,
    fault_transmit: 0,
    fault_cad: 0,
  }
  readonly #parts: RadioParts
  readonly #pollMs: number
  #events: OpenableEvents | undefined
  #spi: Spi | undefined
  #chip: LoraChip | undefined
  #reset: OutputPin | undefined
  readonly #inputs: InputPin[] = []
  #opened = false
  #running: Promise<void> | undefined
  #wake = (): void => undefined
  /** A delay that nothing shortens, not even closing. */
  readonly #delay = (ms: number): Promise<void> => sleep(this.#parts.timers, ms)
  /** an edge of DIO0 that is not handled yet */
  #edge = false
  /** DIO0 is configured, and its edges arrive */
  #edges = false
  /** a packet was found by polling before its edge; how often in a row */
  #unannounced = false
  #misses = 0
  /** woken while the loop was running */
  #again = false
  #checkAt = 0
  #pollAt = 0
  #heardAt = 0
  #noise = -1
  #still = 0
  #revived = 0

  constructor(parts: RadioParts) {
    this.#parts = parts
    // a packet stays in the buffer until the next one arrives, and none is shorter than this
    this.#pollMs = Math.min(20, Math.max(2, airtimeMs(1, parts.modem.air) / 4))
  }

  async open(events: OpenableEvents): Promise<void> {
    const { hardware, options, clock } = this.#parts
    await this.close()
    this.#opened = true
    this.#events = events
    try {
      const spi = await hardware.openSpi(options.spi, options.spi_speed_hz)
      this.#spi = spi
      const lost = (error: Error): void => this.#lose(asOsError(error).message)
      if (options.reset_pin !== undefined) this.#reset = await hardware.openOutput(options.reset_pin, 1)
      if (options.dio0_pin !== undefined)
        this.#inputs.push(await hardware.openInput(options.dio0_pin, () => this.#rose(), lost))
      if (!this.#opened) throw closedWhileOpening()
      this.#edges = options.dio0_pin !== undefined
      this.#chip = new LoraChip(spi, this.#parts.modem)
      await this.#start()
    } catch (error) {
      await this.close()
      throw error instanceof ChipFault
        ? new OsError('LINK_DOWN', error.message, { cause: error, hint: 'dtparam=spi=on; see the wiring of this bus' })
        : error
    }
    this.#heardAt = clock.mono()
    this.#revived = 0
    this.#running = this.#run()
  }

  async close(): Promise<void> {
    const chip = this.#chip
    this.#opened = false
    this.#chip = undefined
    this.#wake()
    await this.#running
    this.#running = undefined
    // no user is left; a chip that cannot be reached is left as it is
    await chip?.sleep().catch(() => undefined)
    for (const pin of this.#inputs.splice(0)) await pin.close()
    await this.#reset?.close()
    this.#spi?.close()
    this.#reset = this.#spi = this.#events = undefined
  }

  /** The channel has a packet to send. */
  wake(): void {
    this.#again = true
    this.#wake()
  }

  async #run(): Promise<void> {
    while (this.#opened) {
      try {
        await this.#sleep(await this.#turn())
      } catch (error) {
        if (!this.#opened) return
        if (!(await this.#revive(error))) return
      }
    }
  }

  /** Does the work that is due; resolves the time until the next. */
  async #turn(): Promise<number> {
    const { clock, channel, options } = this.#parts
    if (this.#edge || clock.mono() >= this.#pollAt) await this.#serve()
    if (clock.mono() >= this.#checkAt) await this.#check()
    const waiting = channel.next(clock.mono())
    if (waiting.packet) {
      if (await this.#free()) await this.#transmit(waiting.packet)
      return 0
    }
    const now = clock.mono()
    const poll = this.#edges ? options.check_interval_ms : this.#pollMs
    this.#pollAt = Math.min(Math.max(this.#pollAt, now), now + poll)
    if (this.#pollAt <= now) this.#pollAt = now + poll
    return Math.min(waiting.afterMs, this.#checkAt - now, this.#pollAt - now, LONGEST_SLEEP_MS)
  }

  /** Reads a received packet, if any. */
  async #serve(): Promise<void> {
    const { clock, channel, onReception } = this.#parts
    const chip = this.#chip!
    const byEdge = this.#edge
    this.#edge = false
    this.#pollAt = 0
    const flags = await chip.flags()
    if (flags === 0) return
    // cleared before reading, so that the next packet is not lost
    await chip.clear(flags)
    if ((flags & IRQ.RX_DONE) === 0) return
    if (this.#edges && !byEdge) this.#missed()
    const reception = await chip.take(flags)
    this.#heardAt = clock.mono()
    this.#still = 0
    channel.heard(clock.mono())
    const { bytes, overwritten } = reception
    this.counters.overwritten += overwritten
    if (!bytes) {
      if (overwritten === 0 || (flags & IRQ.PAYLOAD_CRC_ERROR) !== 0) this.counters.crc_errors++
      return
    }
    this.counters.frequency_error_hz = reception.frequencyErrorHz
    if (this.#opened) onReception(bytes, reception)
  }

  /** True when no other station sends. */
  async #free(): Promise<boolean> {
    const { clock, channel, options } = this.#parts
    const chip = this.#chip!
    if ((await chip.flags()) !== 0) {
      // a packet arrived meanwhile: read it first
      this.#pollAt = 0
      return false
    }
    if (options.listen_before_talk && (await chip.receiving())) {
      channel.busy(clock.mono())
      return false
    }
    await chip.standby()
    if ((await chip.flags()) !== 0) {
      // a packet ended before standby: read it before it is overwritten
      await this.#serve()
      await chip.receive()
      return false
    }
    if (!options.listen_before_talk) return true
    await chip.startCad()
    const flags = await this.#await(IRQ.CAD_DONE, channel.cadMs, 'cad')
    if ((flags & IRQ.CAD_DETECTED) === 0) return true
    await chip.receive()
    channel.busy(clock.mono())
    return false
  }

  async #transmit(packet: Uint8Array): Promise<void> {
    const { clock, channel } = this.#parts
    const chip = this.#chip!
    await chip.load(packet)
    const ms = channel.begins(packet, clock.mono())
    if (ms === null) {
      await chip.receive()
      return
    }
    let sent = false
    try {
      await chip.transmit()
      await this.#await(IRQ.TX_DONE, ms, 'transmit')
      sent = true
    } finally {
      channel.ended(clock.mono(), sent)
    }
    await chip.receive()
  }

  /** Waits for a flag that is expected after about `ms`; clears all flags and resolves them. Throws a ChipFault of that kind. */
  async #await(flag: number, ms: number, kind: 'cad' | 'transmit'): Promise<number> {
    const { clock } = this.#parts
    const chip = this.#chip!
    const begun = clock.mono()
    const late = begun + ms * 1.25 + 250
    for (let at = begun + ms; ; at = Math.max(begun + ms, clock.mono() + this.#pollMs)) {
      await this.#sleep(at - clock.mono())
      this.#edge = false
      // read the time before the flags: a delay of this process must not look like a late chip
      const over = clock.mono() > late
      const flags = await chip.flags()
      if (flags & flag) {
        await chip.clear(flags)
        return flags
      }
      if (!this.#opened) throw new OsError('LINK_DOWN', 'closed')
      const doing = kind === 'cad' ? 'listening' : 'sending'
      if (over) throw new ChipFault(kind, `no end of ${doing} in ${Math.round(late - begun)} ms`)
    }
  }

  /** Compares the chip with its settings. Throws a ChipFault. */
  async #check(): Promise<void> {
    const { clock, options, logger } = this.#parts
    const chip = this.#chip!
    this.#checkAt = clock.mono() + options.check_interval_ms
    await chip.verify()
    for (let k = 0; k < SAMPLES_PER_CHECK; k++) {
      const noise = await chip.noise()
      this.#still = noise === this.#noise ? this.#still + 1 : 0
      this.#noise = noise
    }
    if (this.#still >= STILL_SAMPLES && !(await chip.receiving())) {
      if ((await chip.noiseAtLeastGain(this.#delay)) === this.#noise)
        throw new ChipFault('deaf', 'the receiver hears nothing, not even noise')
      this.#still = 0
    }
    const silent = clock.mono() - this.#heardAt
    if (options.deaf_after_s > 0 && silent > options.deaf_after_s * 1000) {
      logger.debug(`nothing heard for ${Math.round(silent / 1000)} s: chip set up again`)
      this.#heardAt = clock.mono()
      await this.#start()
    }
    // no fault for a complete round
    this.#revived = 0
  }

  /** Reset, settings, reception. Throws ChipFault, or an error of the bus. */
  async #start(): Promise<void> {
    const { clock, options } = this.#parts
    if (this.#reset) {
      await this.#reset.set(0)
      await this.#delay(RESET_LOW_MS)
      // closed meanwhile: the error below reports it
      await this.#reset?.set(1)
      await this.#delay(RESET_READY_MS)
    }
    await this.#chip?.setUp(this.#delay)
    await this.#chip?.receive()
    if (!this.#chip) throw closedWhileOpening()
    this.#edge = false
    this.#still = 0
    this.#pollAt = 0
    this.#checkAt = clock.mono() + options.check_interval_ms
  }

  /** Recovers after a fault; false: the link is lost. */
  async #revive(fault: unknown): Promise<boolean> {
    const { logger, channel, clock } = this.#parts
    let error = fault
    channel.ended(clock.mono(), false)
    while (this.#opened) {
      if (error instanceof ChipFault) this.counters[`fault_${error.kind}`]++
      else this.counters.spi_errors++
      const { code, message } = asOsError(error)
      const reachable = code !== 'TIMEOUT' && code !== 'BUS_STUCK'
      if (!reachable || this.#revived >= REVIVALS) {
        this.#lose(message)
        return false
      }
      this.#revived++
      this.counters.reinits++
      logger.warn(`chip set up again: ${message}`)
      try {
        await this.#start()
        return true
      } catch (again) {
        error = again
        await this.#delay(REVIVAL_DELAY_MS)
      }
    }
    return false
  }

  #lose(reason: string): void {
    this.#events?.lost(reason)
  }

  #rose(): void {
    this.#unannounced = false
    this.#misses = 0
    this.#edge = true
    this.#wake()
  }

  /**
   * A packet was found before its edge. If several packets in a row have no edge, the line is not wired as configured:
   * poll from now on.
   */
  #missed(): void {
    if (!this.#unannounced) {
      this.#unannounced = true
      return
    }
    this.counters.missed_edges++
    if (++this.#misses < 3) return
    this.#edges = false
    this.#events?.degraded('no edges on DIO0: check its wire and dio0_pin; the chip is polled instead')
  }

  /** Until the time is over or the loop is woken. */
  #sleep(ms: number): Promise<void> {
    const again = this.#again
    this.#again = false
    if (ms <= 0 || !this.#opened || this.#edge || again) return nextTurn()
    return new Promise(resolve => {
      const cancel = this.#parts.timers.after(ms, resolve)
      this.#wake = () => {
        cancel()
        resolve()
      }
    })
  }
}
