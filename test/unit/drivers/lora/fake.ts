// An SX127x of registers in memory, on an air shared with others, with a clock moved by hand: the hardware under the driver's
// radio in unit tests. It does what the data sheet says of LoRa mode, and has faults. The one of test/rig/sx127x is behind a real
// device; this one is fast, and its times are exact.
import { type AirSettings, airtimeMs } from '../../../../drivers/lora/airtime'
import type { InputPin, OutputPin, RadioHardware, Spi } from '../../../../drivers/lora/hardware'
import { OsError } from '../../../../src/lib/errors'
import type { ManualTimers } from '../../../lib/manual'

export interface Sending {
  readonly from: number
  readonly to: number
}

/** The maximum that was sent within any window of that length; the maximum is in a window that ends with a transmission. */
export function mostSent(sent: readonly Sending[], windowMs: number): number {
  let worst = 0
  let first = 0
  for (const { to } of sent) {
    const begin = to - windowMs
    while (sent[first]!.to <= begin) first++
    let sum = 0
    for (let k = first; k < sent.length && sent[k]!.from < to; k++)
      sum += Math.min(sent[k]!.to, to) - Math.max(sent[k]!.from, begin)
    worst = Math.max(worst, sum)
  }
  return worst
}

export interface OnAir extends Sending {
  readonly payload: Uint8Array
  /** what decides who receives it: frequency, bandwidth, spreading factor, header, sync word, inverted signals */
  readonly kind: string
  readonly from: number
  readonly to: number
  collided: boolean
}

/** Every radio on it receives all others. */
export class FakeAir {
  readonly chips: FakeChip[] = []
  readonly sent: OnAir[] = []
  /** radios for which this returns true do not receive the packet */
  lose: (sending: OnAir) => boolean = () => false

  constructor(readonly timers: ManualTimers) {}

  begin(sending: OnAir): void {
    for (const other of this.sent.slice(-8)) if (other.to > sending.from) other.collided = sending.collided = true
    this.sent.push(sending)
  }

  busy(now: number, kind: string): boolean {
    return this.sent.slice(-8).some(({ from, to, kind: other }) => from <= now && now < to && other === kind)
  }
}

const BANDWIDTHS = [7812.5, 10_416.7, 15_625, 20_833.3, 31_250, 41_666.7, 62_500, 125_000, 250_000, 500_000]
const DIO0_SAYS = [0x40, 0x08, 0x04, 0]

export class FakeChip implements RadioHardware {
  readonly reg = new Uint8Array(128)
  readonly fifo = new Uint8Array(256)
  readonly sent: OnAir[] = []
  /** power of incoming packets, as PKT_RSSI and PKT_SNR show it */
  pktRssi = 90
  pktSnr = 20
  /** frequency word at the last image calibration, and whether the calibration never ends */
  calibrated = 0
  calibratesForEver = false
  /** flags that cannot be cleared; a fake version; bus messages that fail */
  stuck = 0
  version = -1
  failing = 0
  deaf = false
  /** RSSI of a channel with slowly varying noise; at minimum gain the receiver shows its own noise */
  quiet: (() => number) | undefined
  jammed = false
  /** DIO0 is not connected */
  unwired = false
  transfers = 0
  /** called before each transfer: first register, count, whether it writes */
  before: (register: number, count: number, writes: boolean) => void = () => undefined
  resets = 0
  openSpis = 0
  pins = 0
  #onRise: (() => void) | undefined
  #level = false
  #lastLength = 0
  #packets = 0
  #calibratingUntil = 0
  #noise = 0
  #since = 0
  #turn = 0

  constructor(readonly air: FakeAir) {
    this.powerUp()
    air.chips.push(this)
  }

  // biome-ignore format: pairs of register and value
  powerUp(): void {
    this.reg.fill(0)
    for (const [at, value] of [[0x01, 0x09], [0x06, 0x6c], [0x07, 0x80], [0x09, 0x4f], [0x0b, 0x2b], [0x0c, 0x20], [0x0e, 0x80],
      [0x1d, 0x72], [0x1e, 0x70], [0x1f, 0x64], [0x21, 8], [0x22, 1], [0x23, 0xff], [0x26, 4], [0x31, 0xc3], [0x33, 0x27],
      [0x36, 3], [0x37, 0x0a], [0x39, 0x12], [0x3b, 0x1d], [0x42, 0x12], [0x4d, 0x84]] as const) this.reg[at] = value
    this.#turn++
  }

  async openSpi(): Promise<Spi> {
    this.openSpis++
    return {
      transfer: async (tx, rx) => {
        if (this.failing > 0) {
          this.failing--
          throw new OsError('LINK_DOWN', 'EIO')
        }
        this.transfers++
        const [first] = tx
        this.before(first! & 0x7f, tx.length - 1, (first! & 0x80) !== 0)
        for (let k = 1; k < tx.length; k++) {
          const at = (first! & 0x7f) === 0 ? 0 : (first! & 0x7f) + k - 1
          if (first! & 0x80) this.#write(at, tx[k]!)
          else if (rx) rx[k] = this.#read(at)
        }
      },
      close: () => this.openSpis--,
    }
  }

  openOutput(): OutputPin {
    this.pins++
    return {
      set: value => {
        if (value === 1) return
        this.resets++
        this.stuck = 0
        this.version = -1
        this.deaf = this.jammed = false
        this.powerUp()
      },
      close: () => this.pins--,
    }
  }

  openInput(_pin: unknown, onRise: () => void): InputPin {
    this.pins++
    this.#onRise = onRise
    return {
      close: () => {
        this.pins--
        this.#onRise = undefined
      },
    }
  }

  get mode(): number {
    return this.reg[1]! & 0x80 ? this.reg[1]! & 7 : -1
  }

  get frf(): number {
    return (this.reg[6]! << 16) | (this.reg[7]! << 8) | this.reg[8]!
  }

  get #now(): number {
    return this.air.timers.clock.mono()
  }

  get kind(): string {
    const { reg } = this
    return [this.frf, reg[0x1d]! >> 4, reg[0x1e]! >> 4, reg[0x1d]! & 1, reg[0x39], reg[0x33]].join()
  }

  get #air(): AirSettings {
    const { reg } = this
    return {
      spreadingFactor: reg[0x1e]! >> 4,
      bandwidthHz: BANDWIDTHS[reg[0x1d]! >> 4]!,
      codingRate: (reg[0x1d]! >> 1) & 7,
      preambleSymbols: (reg[0x20]! << 8) | reg[0x21]!,
      implicitHeader: (reg[0x1d]! & 1) === 1,
      crc: (reg[0x1e]! & 4) !== 0,
      lowDataRate: (reg[0x26]! & 8) !== 0,
    }
  }

  /** A packet arrives; `bad`: with a wrong checksum. */
  hear(payload: Uint8Array, bad = false): void {
    if (this.mode !== 5 || this.deaf) return
    const length = this.reg[0x1d]! & 1 ? this.reg[0x22]! : payload.length
    const at = (this.reg[0x10]! + this.#lastLength) & 255
    this.reg[0x10] = at
    this.#lastLength = length
    for (let k = 0; k < length; k++) this.fifo[(at + k) & 255] = payload[k] ?? 0
    this.reg[0x13] = length
    if (!bad) this.#packets++
    this.reg.set([this.#packets >> 8, this.#packets & 0xff], 0x16)
    this.reg[0x19] = this.pktSnr
    this.reg[0x1a] = this.pktRssi
    this.#raise(0x50 | (bad ? 0x20 : 0))
  }

  #read(at: number): number {
    if (at === 0) {
      const value = this.fifo[this.reg[0x0d]!]!
      this.reg[0x0d]!++
      return value
    }
    if (at === 0x42 && this.version >= 0) return this.version
    if (at === 0x12) return this.reg[at]! | this.stuck
    if (at === 0x18) return this.mode === 5 && this.air.busy(this.#now, this.kind) ? 0x0b : 0x10
    if (at === 0x1b) {
      if (this.deaf || !this.quiet) return this.deaf ? 30 : 40 + (this.#noise++ % 7)
      return this.quiet() + ((this.reg[0x26]! & 4) === 0 && this.reg[0x0c]! >> 5 === 6 ? 22 : 0)
    }
    if (at === 0x3b && this.mode < 0) return this.calibratesForEver || this.#now < this.#calibratingUntil ? 0x22 : 0x02
    return this.reg[at]!
  }

  #write(at: number, value: number): void {
    if (at === 0) {
      this.fifo[this.reg[0x0d]!] = value
      this.reg[0x0d]!++
    } else if (at === 0x01) this.#setMode(value)
    else if (at === 0x12) {
      this.reg[at]! &= ~value
      this.#lines()
    } else if (at === 0x3b && this.mode < 0) {
      if ((this.reg[1]! & 7) !== 1 || !(value & 0x40)) return
      this.calibrated = this.frf
      this.#calibratingUntil = this.#now + 10
    } else if (at === 0x40) {
      this.reg[at] = value
      this.#lines()
    } else if (![0x10, 0x13, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x42].includes(at)) this.reg[at] = value
  }

  #setMode(value: number): void {
    const asleep = (this.reg[1]! & 7) === 0
    const before = this.reg[1]!
    this.reg[1] = asleep ? value : (value & 0x7f) | (before & 0x80)
    if (this.reg[1] === before) return
    const turn = ++this.#turn
    const later = (ms: number, run: () => void): void => {
      this.air.timers.after(ms, () => turn === this.#turn && run())
    }
    if ((value & 7) === 0) {
      this.reg[0x12] = 0
      this.fifo.fill(0)
      this.#packets = 0
      this.reg.fill(0, 0x16, 0x18)
      this.#lines()
    }
    if (this.mode === 5) {
      this.#since = this.#now
      this.reg[0x10] = this.reg[0x0f]!
      this.#lastLength = 0
    }
    if (this.mode === 3) this.#send(later)
    const { spreadingFactor, bandwidthHz } = this.#air
    if (this.mode === 7)
      later((2 * 2 ** spreadingFactor * 1000) / bandwidthHz, () => {
        const busy = this.air.busy(this.#now, this.kind)
        this.reg[1] = (this.reg[1]! & ~7) | 1
        this.#raise(busy ? 0x05 : 0x04)
      })
  }

  #send(later: (ms: number, run: () => void) => void): void {
    const length = this.reg[0x22]!
    const payload = Uint8Array.from({ length }, (_, k) => this.fifo[(this.reg[0x0e]! + k) & 255]!)
    const ms = airtimeMs(length, this.#air)
    const sending: OnAir = { payload, kind: this.kind, from: this.#now, to: this.#now + ms, collided: false }
    this.sent.push(sending)
    this.air.begin(sending)
    // receivers get it with the last symbol, whether the sender finishes or not
    this.air.timers.after(ms, () => {
      for (const chip of this.air.chips)
        if (chip !== this && chip.kind === sending.kind && chip.#since <= sending.from && !this.air.lose(sending))
          chip.hear(sending.payload, sending.collided)
    })
    if (this.jammed) this.jammed = false
    else
      later(ms, () => {
        this.reg[1] = (this.reg[1]! & ~7) | 1
        this.#raise(0x08)
      })
  }

  #raise(flags: number): void {
    this.reg[0x12]! |= flags & ~this.reg[0x11]!
    this.#lines()
  }

  #lines(): void {
    const level = (this.reg[0x12]! & DIO0_SAYS[this.reg[0x40]! >> 6]!) !== 0
    if (level === this.#level) return
    this.#level = level
    if (level && !this.unwired) this.#onRise?.()
  }
}
