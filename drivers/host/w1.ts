// DS18B20 and related sensors over the kernel's 1-Wire (w1_therm). A read starts a conversion and blocks up to 750 ms
// in the kernel, so it runs in a separate thread, never in libuv's pool, which also syncs the log (decision 0024). If the bus
// master has `therm_bulk_read` (Linux 5.10), all sensors of a bus convert simultaneously and are only read after that.
//
// Errors:
// - No sensor at all: NOT_FOUND, with what to enable.
// - A sensor is missing or has a wrong CRC: no value.
// - A sensor reads 85 °C, its value before the first conversion: it lost power; no value.
// - The bus blocks the kernel: the link is lost, and reopened when the read has returned.
// - No right to start a simultaneous conversion: sensors convert one after the other.
import { readdirSync, realpathSync } from 'node:fs'
import { dirname } from 'node:path'
import { array, type GenericSchema, type InferOutput, minLength, optional, pipe, regex, string } from 'valibot'
import { asOsError, errno, OsError, outOfFiles } from '../../src/lib/errors'
import { sleep, systemTimers, type Timers } from '../../src/lib/timers'
import type { DriverContext, OpenableEvents, Source, SourceDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/driver-options'
import { FileReader } from '../../src/native/files'
import { type Sample, ValueChannel } from '../kit/channel'
import { channelEntries, interval, sensorId, strict } from '../kit/common-options'
import { PolledSource, type Probe } from '../kit/polled-source'
import { naturalOrder } from './codec'

/** families of w1_therm: DS18S20, DS1822, DS18B20, DS1825, DS28EA00 */
const THERMOMETER = /^(10|22|28|3b|42)-[0-9a-f]{12}$/

export type Scratchpad = { raw: string; value: number } | { raw: string; error: string }

/** Parses w1_slave: nine bytes, the kernel's CRC verdict, the same bytes and thousandths of a degree. */
export function parseW1(text: string): Scratchpad {
  const [, bytes = '', verdict] = /^((?:[0-9a-f]{2} ){9}): crc=[0-9a-f]{2} (YES|NO)/.exec(text) ?? []
  const raw = bytes.trim()
  const thousandths = /\bt=(-?\d+)/.exec(text)?.[1]
  if (verdict === undefined) return { raw: text.trim().slice(0, 40), error: 'has an unexpected format' }
  if (verdict === 'NO') return { raw, error: 'wrong CRC: a long or badly connected line' }
  // a line held low reads as zeros, whose CRC is valid
  if (/^[0 ]+$/.test(raw)) return { raw, error: 'the line is held low' }
  // byte 6 is 0x0c only before the first conversion
  if (raw.startsWith('50 05') && raw.slice(18, 20) === '0c')
    return { raw, error: '85 °C is the value after power-up: the sensor lost power while it converted' }
  if (thousandths === undefined) return { raw, error: 'has an unexpected format' }
  return { raw, value: Number(thousandths) / 1000 }
}

const schema = strict({
  interval_ms: interval(10_000, 1000),
  /** for a container with the host's /sys mounted elsewhere */
  sys_root: optional(string(), '/sys'),
  /** left out: every thermometer found when the link opens, named by its number */
  sensors: optional(
    pipe(
      array(
        strict({
          device: pipe(string(), regex(THERMOMETER, 'a number as in /sys/bus/w1/devices, for example 28-0316a2795fff')),
          id: sensorId,
          ...channelEntries,
        }),
      ),
      minLength(1),
    ),
  ),
})
export type W1Options = InferOutput<typeof schema>

export interface W1Context extends DriverContext {
  reader?: () => Reader
  timers?: Timers
}

type Reader = Pick<FileReader, 'read' | 'write' | 'close'>

const DEADLINE_MS = 3000
/** poll interval and time limit of a simultaneous conversion: the slowest takes 750 ms */
const ASK_MS = 50
const ASKS = 30
const HINT = 'enable 1-Wire (dtoverlay=w1-gpio in config.txt), check the 4.7 kΩ resistor between data and 3.3 V'

class W1Probe implements Probe {
  readonly #folder: string
  readonly #wanted: readonly string[] | undefined
  readonly #newReader: () => Reader
  readonly #timers: Timers
  readonly #buffer = new Uint8Array(512)
  #reader: Reader | undefined
  devices: readonly string[] = []
  /** reads after a simultaneous conversion, and buses with several sensors where that failed */
  readonly detail = { conversions_together: 0, conversions_refused: 0 }

  constructor(folder: string, wanted: readonly string[] | undefined, newReader: () => Reader, timers: Timers) {
    this.#folder = folder
    this.#wanted = wanted
    this.#newReader = newReader
    this.#timers = timers
  }

  async open(_events: OpenableEvents): Promise<void> {
    const there = this.#list()
    if (there.length === 0) throw new OsError('NOT_FOUND', `no 1-Wire thermometer in ${this.#folder}`, { hint: HINT })
    this.devices = this.#wanted ?? there
    if (!this.devices.some(device => there.includes(device)))
      throw new OsError('NOT_FOUND', `none of ${this.devices.join(', ')} is on the bus`, {
        hint: `there are: ${there.join(', ')}`,
      })
    this.#reader = this.#newReader()
  }

  async close(): Promise<void> {
    this.#reader?.close()
    this.#reader = undefined
  }

  async sample(): Promise<readonly Sample[]> {
    const samples: Sample[] = []
    for (const bus of this.#buses()) await this.#convert(bus)
    for (const device of this.devices) samples.push(await this.#one(device))
    if (this.#list().length === 0) throw new OsError('LINK_DOWN', 'the 1-Wire thermometers are gone')
    return samples
  }

  /** Folders of the bus masters that have several of our sensors. */
  #buses(): string[] {
    const counts = new Map<string, number>()
    for (const device of this.devices) {
      try {
        const bus = dirname(realpathSync(`${this.#folder}/${device}`))
        counts.set(bus, (counts.get(bus) ?? 0) + 1)
      } catch {
        // it was removed: its own read reports that
      }
    }
    return [...counts].filter(([, count]) => count > 1).map(([bus]) => bus)
  }

  /** Starts a conversion of all sensors of a bus, so that reading them does not wait. Rejects when the bus blocks the kernel. */
  async #convert(bus: string): Promise<void> {
    const path = `${bus}/therm_bulk_read`
    try {
      await this.#opened().write(path, 'trigger', DEADLINE_MS)
      // -1: a sensor is still converting; its value would be empty
      for (let k = 0; k < ASKS; k++) {
        await sleep(this.#timers, ASK_MS)
        if ((await this.#text(path)).trim() !== '-1') break
      }
      this.detail.conversions_together++
    } catch (thrown) {
      const error = asOsError(thrown)
      if (errno(error.cause) === undefined) throw error
      this.detail.conversions_refused++ // an older kernel, or no right to write: each read starts its own conversion
    }
  }

  #opened(): Reader {
    if (!this.#reader) throw new OsError('LINK_DOWN', 'closed')
    return this.#reader
  }

  async #text(path: string): Promise<string> {
    const length = await this.#opened().read(path, this.#buffer, DEADLINE_MS)
    return Buffer.from(this.#buffer.buffer, 0, length).toString('latin1')
  }

  async #one(device: string): Promise<Sample> {
    try {
      const found = parseW1(await this.#text(`${this.#folder}/${device}/w1_slave`))
      return 'value' in found ? found : { raw: found.raw, value: null, error: `${device}: ${found.error}` }
    } catch (thrown) {
      const error = asOsError(thrown)
      if (error.code === 'TIMEOUT' || error.code === 'BUS_STUCK' || error.code === 'LINK_DOWN') {
        const code = errno(error.cause)
        // an error of the file affects one sensor; any other error affects all of them
        if (code === undefined) throw error
      }
      return { raw: '', value: null, error: `${device} does not answer (${errno(error.cause) ?? error.message})` }
    }
  }

  #list(): string[] {
    try {
      return readdirSync(this.#folder)
        .filter(name => THERMOMETER.test(name))
        .sort(naturalOrder)
    } catch (error) {
      const out = outOfFiles(error)
      if (out) throw out
      return [] // without the kernel module the folder does not exist
    }
  }
}

/** A source of 1-Wire thermometers. Throws CONFIG_INVALID. */
export function createW1(name: string, raw: unknown, context: W1Context): Source {
  const { interval_ms, sys_root, sensors } = checkOptions(w1Source.schema!, raw, name)
  const newReader = context.reader ?? (() => new FileReader(`1-Wire of ${name}`, { clock: context.clock }))
  const wanted = sensors?.map(({ device }) => device)
  const probe = new W1Probe(`${sys_root}/bus/w1/devices`, wanted, newReader, context.timers ?? systemTimers)
  const channels =
    sensors?.map(
      ({ id, unit = 'Cel', scale, offset, status }) => new ValueChannel({ id, unit, scale, offset, status }),
    ) ?? (() => probe.devices.map(device => new ValueChannel({ id: `w1_${device}`, unit: 'Cel' })))
  return new PolledSource(name, { type: 'w1', intervalMs: interval_ms, channels }, probe)
}

export const w1Source: SourceDriver<W1Options> = {
  type: 'w1',
  schema: schema as GenericSchema<unknown, W1Options>,
  create: createW1,
}
