// The sources that every Linux machine has without wiring: hwmon, thermal zones, IIO, CPU, memory, disk, network,
// uptime. Declarations and option schemas only; group.ts describes the errors.
import { array, type GenericSchema, optional, string } from 'valibot'
import type { DriverContext, Source, SourceDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/driver-options'
import { interval, strict } from '../kit/common-options'
import { DiskProbe, diskPaths } from './disk'
import { type HostEnvironment, hostEnvironment } from './environment'
import { type GroupOptions, HostGroup, type HostProbe, type HostSensor } from './group'
import { CpuProbe, MemoryProbe, NetworkProbe, UptimeProbe } from './proc'
import { HwmonProbe, IioProbe, ThermalProbe } from './sysfs'

export const HOST_TYPES = ['cpu', 'memory', 'disk', 'network', 'uptime', 'thermal', 'hwmon', 'iio'] as const
export type HostType = (typeof HOST_TYPES)[number]

/** Options of every host source, as in Config.json under gateway.sources[]; the gateway handles name, type and deadband. */
export interface HostOptions {
  /** glob (`temp*`, several with commas) or /regular expression/ on the sensors' names; default: all */
  match?: string
  interval_ms: number
  /** roots other than /sys and /proc, for a container with the host's trees mounted elsewhere */
  sys_root?: string
  proc_root?: string
  /** disk: the gateway's data directory, and more paths */
  data_dir?: string
  paths?: string[]
  /** network: glob of the interfaces, virtual ones included */
  interfaces?: string
}

/** As often as the value changes; disk and uptime change slowly. */
const INTERVAL_MS: Record<HostType, number> = {
  cpu: 2000,
  memory: 5000,
  disk: 30_000,
  network: 5000,
  uptime: 30_000,
  thermal: 5000,
  hwmon: 5000,
  iio: 5000,
}

const options = (type: HostType): GenericSchema<unknown, HostOptions> =>
  strict({
    match: optional(string()),
    interval_ms: interval(INTERVAL_MS[type]),
    sys_root: optional(string()),
    proc_root: optional(string()),
    data_dir: optional(string()),
    paths: optional(array(string())),
    interfaces: optional(string()),
  })

type MakeSource = (name: string, options: GroupOptions) => Source

const group =
  <S extends HostSensor>(probe: HostProbe<S>): MakeSource =>
  (name, groupOptions) =>
    new HostGroup(name, groupOptions, probe)

const SOURCES: Record<HostType, (env: HostEnvironment, options: HostOptions) => MakeSource> = {
  cpu: env => group(new CpuProbe(env)),
  memory: env => group(new MemoryProbe(env)),
  disk: (env, { data_dir, paths }) => group(new DiskProbe(env, diskPaths(data_dir, paths))),
  network: (env, { interfaces }) => group(new NetworkProbe(env, interfaces)),
  uptime: env => group(new UptimeProbe(env)),
  thermal: env => group(new ThermalProbe(env)),
  hwmon: env => group(new HwmonProbe(env)),
  iio: env => group(new IioProbe(env)),
}

/** A source of this machine. `env` replaces parts of the environment (tests). Throws CONFIG_INVALID. */
export function createHostSource(
  type: HostType,
  name: string,
  raw: unknown,
  context: DriverContext,
  env: Partial<HostEnvironment> = {},
): Source {
  const checked = checkOptions(options(type), raw, name)
  const roots = { sys: checked.sys_root, proc: checked.proc_root }
  const whole = { ...hostEnvironment(context, roots), ...env }
  return SOURCES[type](whole, checked)(name, { type, intervalMs: checked.interval_ms, match: checked.match })
}

const declare = (type: HostType): SourceDriver<HostOptions> => ({
  type,
  schema: options(type),
  ofMachine: true,
  create: (name, raw, context) => createHostSource(type, name, raw, context),
})

/** type → driver */
export const hostSources = Object.fromEntries(HOST_TYPES.map(type => [type, declare(type)])) as Readonly<
  Record<HostType, SourceDriver<HostOptions>>
>

export interface HostSourceEntry {
  name: string
  type: HostType
  interval_ms: number
  data_dir?: string
}

/** Default gateway.sources entries of a new machine. A type that the machine lacks is shown as down, with the reason. */
export const defaultSources = (dataDir?: string): HostSourceEntry[] =>
  HOST_TYPES.filter(type => type !== 'iio').map(type => ({
    name: type,
    type,
    interval_ms: INTERVAL_MS[type],
    ...(type === 'disk' && dataDir !== undefined && { data_dir: dataDir }),
  }))
