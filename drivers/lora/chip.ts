// The registers of one SX127x: reading, writing, modes, packets in its buffer, and checks of its settings. No policy,
// and no waiting except through functions of the radio, which decides on times. Every transfer has a deadline; errors
// of the bus are passed on. A wrong answer of the chip throws a ChipFault, and the radio then sets the chip up again.
import type { Spi } from './hardware'
import { frequencyError, frfRegisters, type Modem, packetRssi, packetSnr, strictBits } from './modem'
import {
  CHIP_VERSION,
  DIO0,
  IMAGE_CAL_RUNNING,
  IMAGE_CAL_START,
  IRQ,
  LONG_RANGE,
  LOW_FREQUENCY,
  MODE,
  REG,
  STAT_RECEIVING,
  WRITE,
} from './registers'

/** The chip is faulty; `kind` names the counter. */
export class ChipFault extends Error {
  constructor(
    readonly kind: 'version' | 'calibration' | 'register' | 'mode' | 'flags' | 'deaf' | 'transmit' | 'cad',
    message: string,
  ) {
    super(message)
    this.name = 'ChipFault'
  }
}

export interface Reception {
  /** null: the checksum or length is wrong, or the bytes were overwritten before they were read */
  bytes: Uint8Array | null
  /** packets lost because the next one arrived before they were read */
  overwritten: number
  rssi: number
  snr: number
  frequencyErrorHz: number
}

const DEADLINE_MS = 1000
/** a calibration takes 10 ms; poll count and interval */
const CALIBRATION_MS = 10
const CALIBRATION_ASKS = 10
/** MODEM_CONFIG_3: automatic gain; LNA: G6; time for the register to follow */
const AUTO_GAIN = 0x04
const LEAST_GAIN = 0xc0
const SETTLE_MS = 5
/** FIFO and one more byte for the address */
const BUFFER = 257
/** registers from OP_MODE to this one are compared in one transfer */
const LAST = REG.PA_DAC

export class LoraChip {
  readonly #spi: Spi
  readonly #modem: Modem
  readonly #tx = new Uint8Array(BUFFER)
  readonly #rx = new Uint8Array(BUFFER)
  readonly #autoGain: boolean
  /** RX_PACKET_CNT of the newest packet that was read */
  #count = 0

  constructor(spi: Spi, modem: Modem) {
    this.#spi = spi
    this.#modem = modem
    this.#autoGain = modem.registers.some(
      ([register, value]) => register === REG.MODEM_CONFIG_3 && (value & AUTO_GAIN) !== 0,
    )
  }

  async read(register: number): Promise<number> {
    return (await this.#burst(register, 1))[0]!
  }

  async write(register: number, value: number): Promise<void> {
    this.#tx[0] = register | WRITE
    this.#tx[1] = value
    await this.#spi.transfer(this.#tx.subarray(0, 2), null, DEADLINE_MS)
  }

  /** From any state to standby with every setting written. Throws ChipFault if it is no SX127x. */
  async setUp(sleep: (ms: number) => Promise<void>): Promise<void> {
    const version = await this.read(REG.VERSION)
    if (version !== CHIP_VERSION) throw new ChipFault('version', versionText(version))
    await this.#calibrate(sleep)
    // the modem can be changed only in sleep mode; sleep also clears the buffer and the flags
    await this.write(REG.OP_MODE, MODE.SLEEP)
    await this.#mode(MODE.SLEEP)
    this.#count = 0
    for (const [register, value] of this.#modem.registers) await this.write(register, value)
    await this.#mode(MODE.STANDBY)
    await this.write(REG.IRQ_FLAGS, 0xff)
    this.#compare(await this.#burst(REG.OP_MODE, LAST - REG.OP_MODE + 1))
  }

  /**
   * Calibrates image rejection at the receive frequency; the chip's automatic calibration at power-up is for 434 MHz
   * (data sheet 2.1.3.8). Only the FSK modem can do it, in standby.
   */
  async #calibrate(sleep: (ms: number) => Promise<void>): Promise<void> {
    const port = this.#modem.lowPort ? LOW_FREQUENCY : 0
    // the first write enters sleep mode, the second selects the FSK modem
    await this.write(REG.OP_MODE, port | MODE.SLEEP)
    await this.write(REG.OP_MODE, port | MODE.SLEEP)
    await this.#frequency(this.#modem.rxFrf)
    await this.write(REG.OP_MODE, port | MODE.STANDBY)
    await sleep(CALIBRATION_MS)
    await this.write(REG.IMAGE_CAL, IMAGE_CAL_START)
    for (let k = 0; k < CALIBRATION_ASKS; k++) {
      await sleep(CALIBRATION_MS)
      if (((await this.read(REG.IMAGE_CAL)) & IMAGE_CAL_RUNNING) === 0) return
    }
    throw new ChipFault('calibration', 'the image calibration does not end')
  }

  /** Starts continuous reception. */
  async receive(): Promise<void> {
    await this.#mode(MODE.STANDBY)
    if (this.#modem.rxFrf !== this.#modem.txFrf) await this.#frequency(this.#modem.rxFrf)
    await this.write(REG.DIO_MAPPING_1, DIO0.RX_DONE)
    if (this.#modem.implicitBytes > 0) await this.write(REG.PAYLOAD_LENGTH, this.#modem.implicitBytes)
    await this.write(REG.FIFO_ADDR_PTR, 0)
    await this.#mode(MODE.RX_CONTINUOUS)
  }

  /** Stops receiving and sending; received data stays in the buffer. */
  standby(): Promise<void> {
    return this.#mode(MODE.STANDBY)
  }

  /** Listens for the preamble of another station, from standby; IRQ.CAD_DONE is set after about two symbols. */
  async startCad(): Promise<void> {
    await this.write(REG.DIO_MAPPING_1, DIO0.CAD_DONE)
    await this.write(REG.IRQ_FLAGS, 0xff)
    await this.#mode(MODE.CAD)
  }

  /** Everything except the start of sending, from standby. */
  async load(packet: Uint8Array): Promise<void> {
    if (this.#modem.rxFrf !== this.#modem.txFrf) await this.#frequency(this.#modem.txFrf)
    await this.write(REG.DIO_MAPPING_1, DIO0.TX_DONE)
    await this.write(REG.IRQ_FLAGS, 0xff)
    await this.write(REG.FIFO_ADDR_PTR, 0)
    const { implicitBytes } = this.#modem
    let at = 1
    this.#tx.fill(0)
    this.#tx[0] = REG.FIFO | WRITE
    if (implicitBytes > 0) this.#tx[at++] = packet.length
    this.#tx.set(packet, at)
    const size = implicitBytes > 0 ? implicitBytes : packet.length
    await this.#spi.transfer(this.#tx.subarray(0, size + 1), null, DEADLINE_MS)
    await this.write(REG.PAYLOAD_LENGTH, size)
  }

  /** Sends the loaded packet; IRQ.TX_DONE is set at the end. */
  transmit(): Promise<void> {
    return this.#mode(MODE.TX)
  }

  flags(): Promise<number> {
    return this.read(REG.IRQ_FLAGS)
  }

  /** Throws ChipFault when flags are still set after being cleared twice. */
  async clear(flags: number): Promise<void> {
    for (let k = 0; k < 2; k++) {
      await this.write(REG.IRQ_FLAGS, flags)
      // a packet cannot arrive in between: none is that short
      if (((await this.flags()) & flags) === 0) return
    }
    throw new ChipFault('flags', `interrupt flags 0x${flags.toString(16)} stay set`)
  }

  /** True during a reception. */
  async receiving(): Promise<boolean> {
    return ((await this.read(REG.MODEM_STAT)) & STAT_RECEIVING) !== 0
  }

  /**
   * The packet whose flags were `flags`. The chip writes each packet after the previous one, in a ring of 256 bytes: if
   * the gateway is late, packets can be overwritten, partly or completely.
   */
  async take(flags: number): Promise<Reception> {
    const from = REG.FIFO_RX_CURRENT
    const about = Uint8Array.from(await this.#burst(from, REG.HOP_CHANNEL - from + 1))
    const size = about[REG.RX_NB_BYTES - from]!
    const { implicitBytes, lowPort, air } = this.#modem
    const snr = packetSnr(about[REG.PKT_SNR - from]!)
    const reception: Reception = {
      bytes: null,
      overwritten: Math.max(0, this.#newPackets(about) - 1),
      snr,
      rssi: packetRssi(about[REG.PKT_RSSI - from]!, snr, lowPort),
      frequencyErrorHz: 0,
    }
    if ((flags & IRQ.PAYLOAD_CRC_ERROR) !== 0 || size === 0) return reception
    const [msb, mid, lsb] = Uint8Array.from(await this.#burst(REG.FEI_MSB, 3))
    reception.frequencyErrorHz = frequencyError(msb!, mid!, lsb!, air.bandwidthHz)
    await this.write(REG.FIFO_ADDR_PTR, about[0]!)
    const all = Uint8Array.from(await this.#burst(REG.FIFO, size))
    const later = await this.#burst(from, REG.RX_PACKET_CNT_LSB - from + 1)
    const written = (packetCount(later) - this.#count) & 0xffff
    // one later packet overwrites this one only if it reached around the ring; several later ones may have overwritten
    // all of it
    const behind = later[0] !== about[0] && ((about[0]! - later[0]!) & 0xff) < later[REG.RX_NB_BYTES - from]!
    if (written > 1 || behind) {
      reception.overwritten++
      return reception
    }
    const inner = implicitBytes > 0 ? all[0]! : size
    if (inner === 0 || inner > (implicitBytes > 0 ? size - 1 : size)) return reception
    reception.bytes = implicitBytes > 0 ? all.subarray(1, 1 + inner) : all
    return reception
  }

  /** Packets since the last call; at most one if the chip restarted its count. */
  #newPackets(about: Uint8Array): number {
    const count = packetCount(about)
    const more = count < this.#count ? 1 : count - this.#count
    this.#count = count
    return more
  }

  /** Current noise from the register; on a quiet channel it changes slowly. */
  noise(): Promise<number> {
    return this.read(REG.RSSI)
  }

  /**
   * Noise at the least gain of the amplifier (data sheet 3.5.5). The register compensates for the gain, so a working
   * receiver shows its own noise here, far above that of the channel. The gain is restored.
   */
  async noiseAtLeastGain(sleep: (ms: number) => Promise<void>): Promise<number> {
    const set = (register: number): number => this.#modem.registers.find(([known]) => known === register)![1]
    await this.write(REG.MODEM_CONFIG_3, set(REG.MODEM_CONFIG_3) & ~AUTO_GAIN)
    await this.write(REG.LNA, LEAST_GAIN | (set(REG.LNA) & 0x1f))
    await sleep(SETTLE_MS)
    const noise = await this.noise()
    await this.write(REG.LNA, set(REG.LNA))
    await this.write(REG.MODEM_CONFIG_3, set(REG.MODEM_CONFIG_3))
    return noise
  }

  /** Throws ChipFault when the chip is another one, is not in continuous reception, or has wrong settings. */
  async verify(): Promise<void> {
    const all = await this.#burst(REG.OP_MODE, LAST - REG.OP_MODE + 1)
    const version = all[REG.VERSION - REG.OP_MODE]!
    if (version !== CHIP_VERSION) throw new ChipFault('version', versionText(version))
    const mode = all[0]!
    if (mode !== this.#opMode(MODE.RX_CONTINUOUS)) throw new ChipFault('mode', `mode 0x${hex(mode)}, not receiving`)
    this.#compare(all)
  }

  /** Throws ChipFault for the first register that differs from its written value. */
  #compare(all: Uint8Array): void {
    for (const [register, value] of this.#modem.registers) {
      const strict = strictBits(register, this.#autoGain)
      const got = all[register - REG.OP_MODE]!
      if ((got & strict) !== (value & strict))
        throw new ChipFault('register', `register 0x${hex(register)} reads 0x${hex(got)}, not 0x${hex(value)}`)
    }
  }

  /** Sleep mode: neither receives nor sends. */
  sleep(): Promise<void> {
    return this.#mode(MODE.SLEEP)
  }

  async #frequency(word: number): Promise<void> {
    for (const [register, value] of frfRegisters(word)) await this.write(register, value)
  }

  #opMode(mode: number): number {
    return LONG_RANGE | (this.#modem.lowPort ? LOW_FREQUENCY : 0) | mode
  }

  #mode(mode: number): Promise<void> {
    return this.write(REG.OP_MODE, this.#opMode(mode))
  }

  /** Consecutive registers, or bytes of the buffer; valid until the next call. */
  async #burst(register: number, count: number): Promise<Uint8Array> {
    this.#tx.fill(0, 0, count + 1)
    this.#tx[0] = register
    await this.#spi.transfer(this.#tx.subarray(0, count + 1), this.#rx.subarray(0, count + 1), DEADLINE_MS)
    return this.#rx.subarray(1, count + 1)
  }
}

const packetCount = (fromRxCurrent: Uint8Array): number =>
  (fromRxCurrent[REG.RX_PACKET_CNT_MSB - REG.FIFO_RX_CURRENT]! << 8) |
  fromRxCurrent[REG.RX_PACKET_CNT_LSB - REG.FIFO_RX_CURRENT]!

const hex = (n: number): string => n.toString(16).padStart(2, '0')

const versionText = (version: number): string =>
  version === 0x00 || version === 0xff
    ? `no chip answers on SPI (version 0x${hex(version)}): check power, wires and chip select`
    : `version 0x${hex(version)} is no SX1276/77/78/79`
