// Sources from /proc: CPU load, memory, network counters, uptime. One read of a file serves the complete group. Errors:
// no such file (NOT_FOUND at the scan, LINK_DOWN later); a text in another format (no values); an interface that
// vanished (its channels stay, ERROR). Per cent and rates need two samples; the first read takes the second sample
// itself.
import { OsError } from '../../src/lib/errors'
import { matcher } from '../kit/match'
import {
  busyPercent,
  type CpuTicks,
  isVirtualInterface,
  type NetCounters,
  naturalOrder,
  parseCpu,
  parseLoad,
  parseMemory,
  parseNetDev,
  parseUptime,
  percent,
} from './codec'
import { type HostEnvironment, procText } from './environment'
import type { HostProbe, HostSensor } from './group'

/** long enough for twenty clock ticks of one CPU */
const SECOND_LOOK_MS = 200
/** with fewer ticks or milliseconds, per cent and rates are inaccurate */
const LEAST_TICKS = 10
const LEAST_MS = 100

const lost = (file: string): OsError => new OsError('LINK_DOWN', `${file} has an unexpected format`)

type Values = ReadonlyMap<string, number | null | undefined>

/** `cpu_busy`, `load_1m`, `load_5m`, `load_15m`. */
export class CpuProbe implements HostProbe {
  readonly known = [
    { id: 'cpu_busy', unit: '%' },
    ...['load_1m', 'load_5m', 'load_15m'].map(id => ({ id, unit: '{1}' })),
  ]
  #before: CpuTicks | null = null
  constructor(readonly env: HostEnvironment) {}

  async scan(): Promise<HostSensor[]> {
    this.#before = parseCpu(procText(this.env, 'stat'))
    if (!this.#before) throw new OsError('NOT_FOUND', 'no cpu line in /proc/stat on this machine')
    // opened now, so that the source still works when the process has no descriptor left
    procText(this.env, 'loadavg')
    return this.known
  }

  async sample(sensors: readonly HostSensor[]): Promise<(number | null)[]> {
    let now = parseCpu(procText(this.env, 'stat'))
    if (now && this.#before && now.total - this.#before.total < LEAST_TICKS) {
      await this.env.sleep(SECOND_LOOK_MS)
      now = parseCpu(procText(this.env, 'stat'))
    }
    const load = parseLoad(procText(this.env, 'loadavg'))
    if (!now && !load) throw lost('/proc/stat')
    const values: Values = new Map([
      ['cpu_busy', now && this.#before && busyPercent(this.#before, now)],
      ['load_1m', load?.[0]],
      ['load_5m', load?.[1]],
      ['load_15m', load?.[2]],
    ])
    this.#before = now
    return pick(sensors, values)
  }
}

/** `mem_total`, `mem_available` (bytes), `mem_used` (per cent), and `swap_used` where there is swap. */
export class MemoryProbe implements HostProbe {
  readonly known = [
    { id: 'mem_total', unit: 'By' },
    { id: 'mem_available', unit: 'By' },
    { id: 'mem_used', unit: '%' },
  ]
  constructor(readonly env: HostEnvironment) {}

  async scan(): Promise<HostSensor[]> {
    const memory = parseMemory(procText(this.env, 'meminfo'))
    if (!memory) throw new OsError('NOT_FOUND', 'no MemTotal in /proc/meminfo on this machine')
    return memory.swapTotal > 0 ? [...this.known, { id: 'swap_used', unit: '%' }] : this.known
  }

  async sample(sensors: readonly HostSensor[]): Promise<(number | null)[]> {
    const memory = parseMemory(procText(this.env, 'meminfo'))
    if (!memory) throw lost('/proc/meminfo')
    const { total, available, swapTotal, swapFree } = memory
    return pick(
      sensors,
      new Map([
        ['mem_total', total],
        ['mem_available', available],
        ['mem_used', percent(total - available, total)],
        ['swap_used', swapTotal > 0 ? percent(swapTotal - swapFree, swapTotal) : null],
      ]),
    )
  }
}

/** `uptime` in seconds. */
export class UptimeProbe implements HostProbe {
  readonly known = [{ id: 'uptime', unit: 's' }]
  constructor(readonly env: HostEnvironment) {}

  async scan(): Promise<HostSensor[]> {
    procText(this.env, 'uptime')
    return this.known
  }

  async sample(): Promise<(number | null)[]> {
    return [parseUptime(procText(this.env, 'uptime'))]
  }
}

interface NetSensor extends HostSensor {
  readonly device: string
  readonly what: keyof typeof NET
}

interface Look {
  at: number
  devices: Map<string, NetCounters>
}

/** The readings of an interface: name, unit, and how to compute each from two samples. */
const NET = {
  rx: ['By', (now: NetCounters) => now.rxBytes],
  tx: ['By', (now: NetCounters) => now.txBytes],
  rx_rate: ['By/s', rate('rxBytes')],
  tx_rate: ['By/s', rate('txBytes')],
  rx_packets: ['{packets}', (now: NetCounters) => now.rxPackets],
  tx_packets: ['{packets}', (now: NetCounters) => now.txPackets],
  errors: ['{errors}', (now: NetCounters) => now.errors],
  drops: ['{drops}', (now: NetCounters) => now.drops],
} as const

/** Per second; a counter that decreased (driver reloaded, 32-bit overflow) gives no rate once. */
function rate(key: 'rxBytes' | 'txBytes') {
  return (now: NetCounters, before: NetCounters | undefined, ms: number): number | null =>
    before && ms >= LEAST_MS && now[key] >= before[key] ? ((now[key] - before[key]) * 1000) / ms : null
}

/** limit so that the group fits into one or two packets */
const MOST_INTERFACES = 8

/** `net_<interface>_<what>`, at most eight interfaces in natural order; without `interfaces` virtual ones are skipped. */
export class NetworkProbe implements HostProbe<NetSensor> {
  #before: Look | undefined
  constructor(
    readonly env: HostEnvironment,
    readonly interfaces?: string,
  ) {}

  async scan(): Promise<NetSensor[]> {
    const look = this.#look()
    const names = [...look.devices.keys()].sort(naturalOrder)
    const wanted =
      this.interfaces === undefined ? (name: string) => !isVirtualInterface(name) : matcher(this.interfaces)
    const chosen = names.filter(wanted)
    if (chosen.length === 0)
      throw new OsError('NOT_FOUND', 'no network interface to read on this machine', {
        hint: `there are: ${names.join(', ') || 'none'}; choose with interfaces`,
      })
    if (chosen.length > MOST_INTERFACES)
      this.env.logger.warn(`only ${MOST_INTERFACES} of ${chosen.length} interfaces are read; choose with interfaces`)
    this.#before = look
    return chosen.slice(0, MOST_INTERFACES).flatMap(device =>
      (Object.keys(NET) as (keyof typeof NET)[]).map(what => ({
        id: `net_${device}_${what}`,
        unit: NET[what][0],
        device,
        what,
      })),
    )
  }

  async sample(sensors: readonly NetSensor[]): Promise<(number | null)[]> {
    if (this.#before && this.env.clock.mono() - this.#before.at < LEAST_MS) await this.env.sleep(SECOND_LOOK_MS)
    const now = this.#look()
    const before = this.#before
    this.#before = now
    if (!sensors.some(sensor => now.devices.has(sensor.device)))
      throw new OsError('LINK_DOWN', 'the network interfaces are gone')
    const ms = before ? now.at - before.at : 0
    return sensors.map(({ device, what }) => {
      const counters = now.devices.get(device)
      return counters ? NET[what][1](counters, before?.devices.get(device), ms) : null
    })
  }

  #look(): Look {
    return { at: this.env.clock.mono(), devices: parseNetDev(procText(this.env, 'net/dev')) }
  }
}

const pick = (sensors: readonly HostSensor[], values: Values): (number | null)[] =>
  sensors.map(sensor => values.get(sensor.id) ?? null)
