// The few keys of Config.json that Engine and Fusion read when they work alone. Without a path, or if the file is
// missing: defaults. A file that is unreadable or has a wrong value throws with path or key; inside a node the
// configuration room has checked all of this before.
import { dirname, resolve } from 'node:path'
import { errno, OsError } from '../lib/errors'
import { readRegular } from '../lib/files'
import { type DiffPolicy, REFERENCE_POLICY } from './templates'
import type { UnitDialect } from './wireunit'

interface PipelineSettings {
  readonly precision: number
  readonly unitDialect: UnitDialect
  readonly policy: DiffPolicy
  readonly assignedId: number
  /** null = templates stay in memory */
  readonly registryDir: string | null
  readonly registryIntervalMs: number
}

const DEFAULTS: PipelineSettings = {
  precision: 4,
  unitDialect: 'ucum',
  policy: REFERENCE_POLICY,
  assignedId: 0,
  registryDir: null,
  registryIntervalMs: 1000,
}

export const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}

const invalid = (key: string, must: string, value: unknown): OsError =>
  new OsError('CONFIG_INVALID', `engine_settings.${key} must be ${must}, not ${JSON.stringify(value)}`)

/** Throws CONFIG_INVALID unless 0 ≤ precision ≤ 10 and whole (decision 0006). */
export function checkPrecision(precision: unknown): number {
  if (typeof precision === 'number' && Number.isInteger(precision) && precision >= 0 && precision <= 10)
    return precision
  throw invalid('precision', 'a whole number from 0 to 10', precision)
}

function natural(key: string, value: unknown, fallback: number): number {
  if (value === undefined) return fallback
  if (typeof value === 'number' && value >= 0 && Number.isFinite(value)) return value
  throw invalid(key, 'a number from 0', value)
}

/** `last` gives the reference's bytes without key frames; `sticky` sends them by count and time (decision 0016). */
function policyOf(engine: Record<string, unknown>): DiffPolicy {
  const { diff_base = 'last', full_every, full_interval_seconds } = engine
  if (diff_base === 'last') return REFERENCE_POLICY
  if (diff_base !== 'sticky') throw invalid('diff_base', '"last" or "sticky"', diff_base)
  return {
    diffBase: 'sticky',
    fullEvery: natural('full_every', full_every, 100),
    fullIntervalMs: natural('full_interval_seconds', full_interval_seconds, 60) * 1000,
  }
}

/** The object in the file at `configPath`, null if there is no file. Throws CONFIG_INVALID, CONFIG_SYNTAX. */
export function readConfig(configPath: string): Record<string, unknown> | null {
  try {
    const text = readRegular(configPath).toString('utf8')
    return record(JSON.parse(text.replace(/^\uFEFF/, '')))
  } catch (cause) {
    if (errno(cause) === 'ENOENT') return null
    const message = `${configPath}: ${(cause as Error).message}`
    throw new OsError(errno(cause) ? 'CONFIG_INVALID' : 'CONFIG_SYNTAX', message, { cause })
  }
}

export function readSettings(configPath: string | null): PipelineSettings {
  const config = configPath === null ? null : readConfig(configPath)
  if (configPath === null || config === null) return DEFAULTS
  const engine = record(config.engine_settings)
  const { registry = 'data/device_registry' } = record(config.RESOURCES)
  const dialect = engine.unit_dialect ?? DEFAULTS.unitDialect
  if (dialect !== 'ucum' && dialect !== 'attribute') throw invalid('unit_dialect', '"ucum" or "attribute"', dialect)
  return {
    precision: checkPrecision(engine.precision ?? DEFAULTS.precision),
    unitDialect: dialect,
    policy: policyOf(engine),
    assignedId: typeof config.assigned_id === 'number' ? config.assigned_id : 0,
    registryDir: resolve(dirname(configPath), String(registry)),
    registryIntervalMs: natural('registry_sync_interval_seconds', engine.registry_sync_interval_seconds, 1) * 1000,
  }
}
