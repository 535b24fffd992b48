// The cores of this build: pycore is pure JavaScript; rscore lets WebAssembly make the bytes of a batch. Without
// WebAssembly a configured rscore is replaced by pycore, with a warning; the packets are the same.
import type { Core } from '../pipeline/core'
import { coreWithBatch, createPureCore, type PureCoreOptions } from '../pipeline/pycore'
import { nativeModule, whyNot } from './native'
import { NativeBatch } from './stage'

export { createNativeChecks } from './checks'
export { type CoreReport, GatewayCores, lastChoice } from './choice'
export { BareCoreManager, type CorePackage } from './manager'

export const CORE_NAMES: readonly [string, ...string[]] = ['pycore', 'rscore']

/** Why a core of this build cannot run here; null if it can. */
export const coreProblem = (name: string): string | null => (name === 'rscore' ? whyNot() : null)

/** The native core; null without WebAssembly. */
export function createNativeCore(options: PureCoreOptions): Core | null {
  const module = nativeModule()
  return module && coreWithBatch(options, 'rscore', slab => new NativeBatch(module, slab))
}

/** The core of that name; `warn` is called if another one replaces it. */
export function createCore(name: string, options: PureCoreOptions, warn: (problem: string) => void): Core {
  const native = name === 'rscore' ? createNativeCore(options) : null
  if (name === 'rscore' && native === null) warn(`rscore is not available (${whyNot()}); pycore makes the packets`)
  return native ?? createPureCore(options)
}
