// What stands in a field of the settings → the value the gateway gets, checked here so that a typing mistake shows at once.
// The gateway checks again.
import type { OptionField } from './types'

export type Typed = { readonly value: unknown } | { readonly error: string }

/** A value as it stands in its field. */
export function shownValue({ type, value }: Pick<OptionField, 'type' | 'value'>): string {
  if (value === null || value === undefined) return ''
  return type === 'json' ? JSON.stringify(value, null, 2) : String(value)
}

function bounded(value: number, { min, max }: Pick<OptionField, 'min' | 'max'>): Typed {
  if (min !== undefined && value < min) return { error: `at least ${min}` }
  if (max !== undefined && value > max) return { error: `at most ${max}` }
  return { value }
}

/** Text of a field → its value, or what is wrong with it. */
export function typedValue(field: OptionField, text: string): Typed {
  const trimmed = text.trim()
  switch (field.type) {
    case 'bool':
      return { value: trimmed === 'true' }
    case 'int':
      return /^-?\d+$/.test(trimmed) ? bounded(Number(trimmed), field) : { error: 'a whole number is needed' }
    case 'float': {
      const value = trimmed === '' ? Number.NaN : Number(trimmed.replace(',', '.'))
      return Number.isFinite(value) ? bounded(value, field) : { error: 'a number is needed' }
    }
    case 'json':
      try {
        return { value: JSON.parse(trimmed) }
      } catch (thrown) {
        return { error: thrown instanceof Error ? thrown.message : 'not JSON' }
      }
    default:
      return { value: text }
  }
}
