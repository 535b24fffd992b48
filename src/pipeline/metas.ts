// Descriptions of `state.unit` slots, made once per text and shared: status, canonical unit and the law to it. Bounded,
// since the texts come from peers.
import { stateName } from '../wire/symbols'
import { splitMeta } from './compress'
import type { UnitDialect, WireUnits } from './core'
import { decodeUnit } from './unittext'

export interface MetaInfo {
  readonly text: string
  readonly status: string
  readonly unit: string
  readonly factor: number
  /** whole number to divide by instead of multiplying with the factor; 0 = multiply */
  readonly divisor: number
  readonly offset: number
  /** state `E`: a value text `0` is no value (D7) */
  readonly failed: boolean
  readonly ambiguous: boolean
}

/** described on each use instead of kept: no sender of sense makes such texts, and kept ones would fill the memory */
export const LONG_META = 255
const MOST = 8192

/** FNV-1a over the UTF-16 units of a text, continued from `seed`. */
export function hashText(text: string, seed = 0x811c9dc5): number {
  let h = seed
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  return Math.imul(h ^ 0xff, 0x01000193)
}

export class Metas {
  readonly #byText = new Map<string, MetaInfo>()

  constructor(
    readonly dialect: UnitDialect,
    readonly units: WireUnits,
  ) {}

  of(text: string): MetaInfo {
    if (text.length > LONG_META) return this.#make(text)
    const known = this.#byText.get(text)
    if (known) return known
    if (this.#byText.size >= MOST) this.#byText.clear()
    const made = this.#make(text)
    this.#byText.set(text, made)
    return made
  }

  #make(text: string): MetaInfo {
    const { state, unit: token } = splitMeta(text)
    const status = stateName(state)
    const ucum = this.dialect === 'ucum'
    const law = ucum ? this.units.fromToken(token) : attributeLaw(token)
    const inverse = Math.round(1 / law.factor)
    return {
      text,
      status,
      unit: law.unit,
      factor: law.factor,
      divisor: law.factor < 1 && law.factor * inverse === 1 ? inverse : 0,
      offset: law.offset,
      failed: ucum && state === 'E',
      ambiguous: law.ambiguous,
    }
  }
}

/** A unit nobody can read is kept as it stands: one sensor's unit must not cost the packet. */
function attributeLaw(token: string): { unit: string; factor: number; offset: number; ambiguous: boolean } {
  try {
    return { unit: decodeUnit(token), factor: 1, offset: 0, ambiguous: false }
  } catch {
    return { unit: token, factor: 1, offset: 0, ambiguous: true }
  }
}
