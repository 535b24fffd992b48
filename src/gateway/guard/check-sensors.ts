// What the sensors of a configuration are called and measured in, as far as it says so before anything is opened. Asked when
// a configuration is written: an unknown unit would lose every reading of its sensor, and an id that two sources have would
// mix their readings. A file that was there before still starts: see intake/sensor-ids.ts and intake/sources.ts.
import { nearest } from '../../config'
import { OsError } from '../../lib/errors'
import { turn } from '../../lib/yield'
import type { DriverContext, Source } from '../../links/contracts'
import type { Registry } from '../../links/registry'
import { resolveAttribute } from '../../units/attribute'
import { resolve } from '../../units/canonical'
import { ATTRIBUTE_UNITS, SYMBOL_UNITS } from '../../units/tokens'
import { type Clash, SensorIds } from '../intake/sensor-ids'

/** An entry of gateway.sources. */
export interface SourceEntry {
  readonly name: string
  readonly type: string
}

interface UnitAt {
  /** dotted key below the entry */
  readonly key: string
  readonly unit: string
  /** the words around it, for what is measured */
  readonly near: string
}

/** Every `unit` that the options of a source name, at any depth. */
function unitsOf(options: unknown, path: readonly string[] = []): UnitAt[] {
  if (typeof options !== 'object' || options === null) return []
  const { id, name } = options as Record<string, unknown>
  return Object.entries(options).flatMap(([key, value]) => {
    const here = [...path, key]
    if (key !== 'unit' || typeof value !== 'string') return unitsOf(value, here)
    return [{ key: here.join('.'), unit: value, near: [...path, id, name].join(' ') }]
  })
}

/** Throws CONFIG_INVALID for the first unit of a source that is not known, with the nearest one that is. */
export function refuseUnknownUnits(entry: SourceEntry, dialect: string): void {
  const known = dialect === 'attribute' ? resolveAttribute : resolve
  for (const { key, unit } of unitsOf(entry)) {
    if (known(unit)) continue
    const names = [...SYMBOL_UNITS.values(), ...ATTRIBUTE_UNITS.values()]
    const meant = nearest(unit, names)
    throw new OsError('CONFIG_INVALID', `${key}: ${JSON.stringify(unit)} is not a known unit`, {
      details: { keys: [key] },
      hint: `${meant ? `did you mean ${meant}? ` : ''}units are UCUM codes: Cel, %, hPa, m3/h, kW.h; {text} counts things`,
    })
  }
}

const TEMPERATURE = /temp|therm|celsius|boiler|heat|cool|freez|fridge|room|outdoor|indoor/i

/** What is worth a warning: C is the coulomb, and a sensor that looks like a thermometer hardly counts charges. */
export function unitWarnings(entry: SourceEntry): string[] {
  return unitsOf(entry)
    .filter(({ unit, near }) => unit === 'C' && TEMPERATURE.test(`${entry.name} ${near}`))
    .map(({ key }) => `source ${entry.name}, ${key}: C is the coulomb; degrees Celsius are Cel`)
}

/** A source that is made, and not opened. Throws NO_DRIVER, CONFIG_INVALID. */
export async function sourceOf(
  { name, type, ...fields }: SourceEntry,
  registry: Registry,
  context: DriverContext,
): Promise<Source> {
  const { deadband: _, ...options } = fields as Record<string, unknown>
  return (await registry.sourceDriver(type)).create(name, options, context)
}

/** The ids that sources of a list have in common; a source that cannot be made has none. */
export async function clashesOf(
  entries: readonly SourceEntry[],
  registry: Registry,
  context: DriverContext,
): Promise<(Clash & { readonly fixed?: boolean })[]> {
  const ids = new SensorIds()
  const all: { name: string; fixed: Map<string, boolean> }[] = []
  for (const [k, entry] of entries.entries()) {
    // a long list must not keep the loop from everything else
    if (k % 20 === 19) await turn()
    const source = await sourceOf(entry, registry, context).catch(() => undefined)
    const sensors = (await source?.sensors) ?? []
    const fixed = new Map(sensors.map(({ id, fixed = false }) => [id, fixed]))
    all.push({ name: entry.name, fixed })
  }
  ids.configured(all.flatMap(({ fixed }) => [...fixed.keys()]))
  return all.flatMap(({ name, fixed }) =>
    ids.claim(name, [...fixed.keys()]).map(clash => ({ ...clash, fixed: fixed.get(clash.id) === true })),
  )
}
