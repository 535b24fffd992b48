// Sources from /sys: hwmon chips, thermal zones, IIO devices. Each sensor is a separate file (IIO: plus scale and
// offset), read through blocking-files.ts, one after the other. Errors: no sensor (NOT_FOUND); one file fails (EIO, ENODATA, a
// fault flag, a hang: no value, the reason in the debug log); all files are gone (LINK_DOWN: reopened).
import { lstatSync, readdirSync, realpathSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { asOsError, errno, OsError, outOfFiles } from '../../src/lib/errors'
import { safeName } from '../../src/links/names'
import { isGone } from './blocking-files'
import { hwmonChannel, iioChannel } from './channels'
import { naturalOrder, oneNumber } from './codec'
import type { HostEnvironment } from './environment'
import { distinct, type HostProbe, type HostSensor } from './group'

interface FileSensor extends HostSensor {
  /** the value; null when the chip reports a fault; throws the system's error */
  value(): Promise<number | null>
}

abstract class FileProbe implements HostProbe<FileSensor> {
  constructor(readonly env: HostEnvironment) {}

  /** for messages: "no hwmon sensors on this machine" */
  abstract readonly what: string
  abstract find(): Promise<FileSensor[]>

  async scan(): Promise<FileSensor[]> {
    const sensors = await this.find()
    if (sensors.length === 0)
      throw new OsError('NOT_FOUND', `no ${this.what} on this machine`, {
        hint: 'remove the source from gateway.sources to stop this message',
      })
    return sensors
  }

  async sample(sensors: readonly FileSensor[]): Promise<(number | null)[]> {
    const values: (number | null)[] = []
    let gone = 0
    for (const sensor of sensors) {
      try {
        values.push(await sensor.value())
      } catch (error) {
        if (isGone(error)) gone++
        this.env.logger.debug(`${sensor.id}: ${errno(error) ?? asOsError(error).message}`)
        values.push(null)
      }
    }
    if (gone === sensors.length) throw new OsError('LINK_DOWN', `the ${this.what} are gone`)
    return values
  }

  protected async number(path: string): Promise<number | null> {
    return oneNumber(await this.env.files.text(path))
  }

  /** First line of a file; '' if it does not exist: names and labels are optional. */
  protected async label(path: string): Promise<string> {
    try {
      return (await this.env.files.text(path)).split('\n')[0]!.trim()
    } catch {
      return ''
    }
  }
}

/** File names in a folder; none if the folder does not exist, as on a machine without such devices. */
function list(path: string): string[] {
  try {
    return readdirSync(path).sort(naturalOrder)
  } catch (error) {
    const out = outOfFiles(error)
    if (out) throw out
    return []
  }
}

/**
 * A device's name on its bus (`1-0048`, `nvme0`), which is stable when numbers change: the folder that `link` points
 * to, `up` levels above. Without such a link, `fallback`.
 */
function busName(link: string, up: number, fallback: string): string {
  try {
    if (!lstatSync(link).isSymbolicLink()) return fallback
    const real = realpathSync(link)
    return basename(up === 0 ? real : dirname(real))
  } catch {
    return fallback // a virtual device has none
  }
}

/** `text` as a safe name; `fallback` if nothing of it is left. */
function safeOr(text: string, fallback: string): string {
  return /[A-Za-z0-9]/.test(text) ? safeName(text) : fallback
}

interface Device {
  dir: string
  name: string
  apart: string
  files: ReadonlySet<string>
}

/** Devices in an order independent of the numbers the kernel assigned. */
const inOrder = (devices: Device[]): Device[] =>
  devices.sort((a, b) => naturalOrder(a.name, b.name) || naturalOrder(a.apart, b.apart))

/** `<chip>_<label or stem>`, for example `coretemp_Core_0`, `bme280_temp1`. */
export class HwmonProbe extends FileProbe {
  readonly what = 'hwmon sensors'

  async find(): Promise<FileSensor[]> {
    const root = `${this.env.sys}/class/hwmon`
    const devices: Device[] = []
    for (const entry of list(root)) {
      const dir = `${root}/${entry}`
      const files = new Set(list(dir))
      const name = safeOr(await this.label(`${dir}/name`), entry)
      devices.push({ dir, name, apart: safeOr(busName(`${dir}/device`, 0, entry), entry), files })
    }
    const chips = distinct(inOrder(devices).map(({ name, apart }) => [name, apart]))
    const sensors: FileSensor[] = []
    for (const [k, { dir, files }] of devices.entries()) sensors.push(...(await this.#chip(chips[k]!, dir, files)))
    return sensors
  }

  async #chip(chip: string, dir: string, files: ReadonlySet<string>): Promise<FileSensor[]> {
    const channels = [...files]
      .map(file => hwmonChannel(file, files))
      .filter(channel => channel !== undefined)
      .sort((a, b) => a.rank - b.rank)
    const live = []
    for (const channel of channels) {
      // a disabled channel never has a value
      if (files.has(`${channel.stem}_enable`) && (await this.label(`${dir}/${channel.stem}_enable`)) === '0') continue
      const text = files.has(`${channel.stem}_label`) ? await this.label(`${dir}/${channel.stem}_label`) : ''
      live.push({ channel, text: safeOr(text, channel.stem) })
    }
    const names = distinct(live.map(({ text, channel }) => [text, channel.stem]))
    return live.map(({ channel: { stem, file, unit, divide } }, k) => ({
      id: `${chip}_${names[k]}`,
      unit,
      value: async () => {
        if (files.has(`${stem}_fault`) && (await this.number(`${dir}/${stem}_fault`)) === 1) return null
        const value = await this.number(`${dir}/${file}`)
        return value === null ? null : value / divide
      },
    }))
  }
}

/** `thermal_<type>`, for example `thermal_cpu-thermal`. */
export class ThermalProbe extends FileProbe {
  readonly what = 'thermal zones'

  async find(): Promise<FileSensor[]> {
    const root = `${this.env.sys}/class/thermal`
    const zones: { zone: string; type: string }[] = []
    for (const zone of list(root)) {
      if (!/^thermal_zone\d+$/.test(zone) || !list(`${root}/${zone}`).includes('temp')) continue
      zones.push({ zone, type: safeOr(await this.label(`${root}/${zone}/type`), zone) })
    }
    const names = distinct(zones.map(({ zone, type }) => [type, zone.slice('thermal_zone'.length)]))
    return zones.map(({ zone }, k) => ({
      id: `thermal_${names[k]}`,
      unit: 'Cel',
      value: async () => {
        const value = await this.number(`${root}/${zone}/temp`)
        return value === null ? null : value / 1000
      },
    }))
  }
}

/** `<device>_<label or channel>`, for example `bme280_pressure`, `ads1015_voltage0`. */
export class IioProbe extends FileProbe {
  readonly what = 'IIO sensors'

  async find(): Promise<FileSensor[]> {
    const root = `${this.env.sys}/bus/iio/devices`
    const devices: Device[] = []
    for (const entry of list(root)) {
      if (!entry.startsWith('iio:device')) continue
      const dir = `${root}/${entry}`
      const files = new Set(list(dir))
      const label = files.has('label') ? await this.label(`${dir}/label`) : ''
      const name = safeOr(label, safeOr(await this.label(`${dir}/name`), safeName(entry)))
      // the real folder is …/<bus device>/iio:deviceN
      devices.push({ dir, name, apart: safeOr(busName(dir, 1, entry), safeName(entry)), files })
    }
    const names = distinct(inOrder(devices).map(({ name, apart }) => [name, apart]))
    const sensors: FileSensor[] = []
    for (const [k, { dir, files }] of devices.entries()) sensors.push(...(await this.#device(names[k]!, dir, files)))
    return sensors
  }

  async #device(name: string, dir: string, files: ReadonlySet<string>): Promise<FileSensor[]> {
    const channels = []
    for (const file of files) {
      const channel = iioChannel(file, files)
      if (!channel) continue
      const label = `in_${channel.stem}_label`
      channels.push({
        channel,
        text: safeOr(files.has(label) ? await this.label(`${dir}/${label}`) : '', channel.stem),
      })
    }
    const names = distinct(channels.map(({ text, channel }) => [text, channel.stem]))
    return channels.map(({ channel: { file, scale, offset, unit, divide } }, k) => ({
      id: `${name}_${names[k]}`,
      unit,
      // scale and offset are read each time: drivers with automatic ranging change them
      value: async () => {
        const raw = await this.number(`${dir}/${file}`)
        const plus = offset ? await this.number(`${dir}/${offset}`) : 0
        const times = scale ? await this.number(`${dir}/${scale}`) : 1
        return raw === null || plus === null || times === null ? null : ((raw + plus) * times) / divide
      },
    }))
  }
}
