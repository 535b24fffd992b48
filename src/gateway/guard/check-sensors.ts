// Checks the sensor ids and units of a configuration, as far as they are known before anything is opened. Called before a
// configuration is written: an unknown unit would lose every reading of its sensor, and an id shared by two sources would mix
// their readings. An existing file still starts: see intake/sensor-ids.ts and intake/sources.ts.
import { nearest } from '../../config'
import { OsError } from '../../lib/errors'
import { yieldToLoop } from '../../lib/yield'
import type { DriverContext, Source } from '../../links/contracts'
import type { Registry } from '../../links/registry'
import { resolveAttribute } from '../../units/attribute'
import { resolve } from '../../units/canonical'
import { ATTRIBUTE_UNITS, SYMBOL_UNITS } from '../../units/tokens'
import { type Clash, SensorIds } from '../intake/sensor-ids'
import type { SourceEntry } from '../intake/test-source'

interface UnitAt {
  /** dotted key inside the entry */
  readonly key: string
  readonly unit: string
  /** neighbouring text, which names the measured quantity */
  readonly near: string
}

/** Every `unit` in the options of a source, at any depth. */
function unitsOf(options: unknown, path: readonly string[] = []): UnitAt[] {
  if (typeof options !== 'object' || options === null) return []
  const { id, name } = options as Record<string, unknown>
  return Object.entries(options).flatMap(([key, value]) => {
    const here = [...path, key]
    if (key !== 'unit' || typeof value !== 'string') return unitsOf(value, here)
    return [{ key: here.join('.'), unit: value, near: [...path, id, name].join(' ') }]
  })
}

/** Throws CONFIG_INVALID for the first unknown unit of a source, and suggests the nearest known one. */
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

/** Units that need a warning: C is the coulomb, but the sensor looks like a thermometer. */
export function unitWarnings(entry: SourceEntry): string[] {
  return unitsOf(entry)
    .filter(({ unit, near }) => unit === 'C' && TEMPERATURE.test(`${entry.name} ${near}`))
    .map(({ key }) => `source ${entry.name}, ${key}: C is the coulomb; degrees Celsius are Cel`)
}

/** Creates a source without opening it. Throws NO_DRIVER, CONFIG_INVALID. */
export async function sourceOf(
  { name, type, deadband: _, ...options }: SourceEntry,
  registry: Registry,
  context: DriverContext,
): Promise<Source> {
  return (await registry.sourceDriver(type)).create(name, options, context)
}

/** The sensor ids that several sources share; a source that cannot be created has none. */
export async function clashesOf(
  entries: readonly SourceEntry[],
  registry: Registry,
  context: DriverContext,
): Promise<(Clash & { readonly fixed?: boolean })[]> {
  const ids = new SensorIds()
  const all: { name: string; fixed: Map<string, boolean> }[] = []
  for (const [k, entry] of entries.entries()) {
    // yield to the event loop: the list may be long
    if (k % 20 === 19) await yieldToLoop()
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
