// The built-in cores by name, for stress and compare.

import type { Core } from '../../pipeline/core'
import type { UnitResolver, WireUnits } from '../../pipeline/wireunit'
import { coreProblem, createNativeCore, createPureCore, OsError, resolve, resolveList, wireUnits } from './program'

interface CoreSettings {
  readonly precision?: number
}

/** name → a new core with its own templates */
export type CoreTable = Readonly<Record<string, (settings: CoreSettings) => Core>>

export const ucum: UnitResolver & WireUnits = { ...wireUnits(), resolve, resolveList }

export const BUILT_IN_CORES: CoreTable = {
  pycore: settings => createPureCore({ resolver: ucum, units: ucum, registryDir: null, ...settings }),
  ...(coreProblem('rscore') === null && {
    rscore: (settings: CoreSettings) =>
      createNativeCore({ resolver: ucum, units: ucum, registryDir: null, ...settings }) as Core,
  }),
}

/** The factory of a core. Throws NOT_FOUND, with the existing names. */
export function coreMaker(cores: CoreTable, name: string): CoreTable[string] {
  const maker = Object.hasOwn(cores, name) ? cores[name] : undefined
  if (maker) return maker
  throw new OsError(
    'NOT_FOUND',
    `the core ${JSON.stringify(name)} is not available (${whyMissing(name)}); there is ${namesOf(cores)}`,
    {
      hint: `name one of ${namesOf(cores)}`,
    },
  )
}

/** Why a core is not in the table. */
export const whyMissing = (name: string): string => coreProblem(name) ?? 'it is not built in'

export const namesOf = (cores: CoreTable): string => Object.keys(cores).join(', ')
