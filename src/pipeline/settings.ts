// The few keys of Config.json that Engine and Fusion read when they work alone. Without a path: defaults, no file. A
// file that cannot be read or that holds a wrong precision throws, naming the path; inside a node the configuration room
// has checked all of this before.
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { OsError } from '../lib/errors'

export interface Settings {
  precision: number
  assignedId: number
  registryDir: string | null
  registryIntervalMs: number
}

const DEFAULTS: Settings = { precision: 4, assignedId: 0, registryDir: null, registryIntervalMs: 1000 }

const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}

/** Throws CONFIG_INVALID unless 0 ≤ precision ≤ 10 and whole (D3). */
export function checkPrecision(precision: unknown): number {
  if (typeof precision !== 'number' || !Number.isInteger(precision) || precision < 0 || precision > 10)
    throw new OsError(
      'CONFIG_INVALID',
      `engine_settings.precision must be a whole number from 0 to 10, not ${String(precision)}`,
    )
  return precision
}

export function readSettings(configPath: string | null): Settings {
  if (configPath === null) return DEFAULTS
  let config: Record<string, unknown>
  try {
    config = record(JSON.parse(readFileSync(configPath, 'utf8')))
  } catch (cause) {
    throw new OsError('CONFIG_SYNTAX', `${configPath}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    })
  }
  const engine = record(config.engine_settings)
  const resources = record(config.RESOURCES)
  const registry = typeof resources.registry === 'string' ? resources.registry : 'data/device_registry'
  const interval = engine.registry_sync_interval_seconds
  return {
    precision: checkPrecision(engine.precision ?? DEFAULTS.precision),
    assignedId: typeof config.assigned_id === 'number' ? config.assigned_id : 0,
    registryDir: resolve(dirname(configPath), registry),
    registryIntervalMs: typeof interval === 'number' && interval >= 0 ? interval * 1000 : DEFAULTS.registryIntervalMs,
  }
}
