// Cached descriptions of `state.unit` slots, one per text (and kind of sender): status, canonical unit and the
// conversion to it. Bounded, because the texts come from peers.
import { orElse } from '../lib/errors'
import { stateName } from '../wire/symbols'
import { type LinearConversion, splitMeta } from './compress'
import { decodeUnit } from './unittext'
import { divisorOf, type UnitDialect, type WireUnits } from './wireunit'

/** Returns the description of a `state.unit` text; `plain`: of a template of C firmware. */
export type MetaOf = (text: string, plain: boolean) => MetaInfo

export interface MetaInfo extends LinearConversion {
  readonly text: string
  readonly status: string
  readonly unit: string
  /** state `E`: the value text `00` means no value (X34) */
  readonly failed: boolean
  readonly ambiguous: boolean
}

/** longer texts are not cached: no reasonable sender has them, and they would fill the memory */
export const LONG_META = 255
const MOST = 8192

/** FNV-1a over the UTF-16 units of a text, continued from `seed`. */
export function hashText(text: string, seed = 0x811c9dc5): number {
  let h = seed
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  return Math.imul(h ^ 0xff, 0x01000193)
}

export class SlotMetaCache {
  readonly #byText = new Map<string, MetaInfo>()
  /** of templates of C firmware, where the same text may be another unit */
  readonly #plain = new Map<string, MetaInfo>()

  constructor(
    readonly dialect: UnitDialect,
    readonly units: WireUnits,
  ) {}

  of(text: string, plain: boolean): MetaInfo {
    if (text.length > LONG_META) return this.#make(text, plain)
    const cache = plain ? this.#plain : this.#byText
    const known = cache.get(text)
    if (known) return known
    if (cache.size >= MOST) cache.clear()
    const made = this.#make(text, plain)
    cache.set(text, made)
    return made
  }

  #make(text: string, plain: boolean): MetaInfo {
    const { state, unit: token } = splitMeta(text)
    const status = stateName(state)
    const ucum = this.dialect === 'ucum'
    const conversion = ucum ? this.units[plain ? 'fromPlain' : 'fromToken'](token) : attributeConversion(token)
    return {
      text,
      status,
      unit: conversion.unit,
      factor: conversion.factor,
      divisor: divisorOf(conversion.factor),
      offset: conversion.offset,
      failed: state === 'E',
      ambiguous: conversion.ambiguous,
    }
  }
}

/** An unreadable unit is kept unchanged: one sensor's unit must not cost the packet. */
function attributeConversion(token: string): { unit: string; factor: number; offset: number; ambiguous: boolean } {
  const unit = orElse(undefined, () => decodeUnit(token))
  return { unit: unit ?? token, factor: 1, offset: 0, ambiguous: unit === undefined }
}
