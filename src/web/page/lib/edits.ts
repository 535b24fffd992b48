// Converts the text in a field of the settings to the value for the gateway, and checks it here, so that a typing
// mistake is shown immediately. The gateway checks again.
import type { OptionField, OptionPart } from './types'

type Typed = { readonly value: unknown } | { readonly error: string }

/** A save's answer for the form: the remaining edits, their errors, and refusals that belong to no field. */
export function afterSaving(
  edits: Readonly<Record<string, string>>,
  changed: readonly { readonly key: string }[],
  failed: readonly { readonly key?: string; readonly error: string }[],
): { edits: Record<string, string>; errors: Record<string, string>; others: string[] } {
  const saved = new Set(changed.map(({ key }) => key))
  const kept = Object.entries(edits).filter(([key]) => !saved.has(key))
  const errors: Record<string, string> = {}
  const others: string[] = []
  for (const { key = '', error } of failed) {
    // the field itself, or the list with the refused element: gateway.uplinks.0.port
    const field = kept
      .map(([name]) => name)
      .find(name => key === name || key.startsWith(`${name}.`) || key.startsWith(`${name}[`))
    if (field === undefined) others.push(error)
    else errors[field] = errors[field] === undefined ? error : `${errors[field]}; ${error}`
  }
  return { edits: Object.fromEntries(kept), errors, others }
}

/** The words of a text: `gateway.log.max_bytes` is found as typed, and `sources` does not match RESOURCES. */
const wordsOf = (text: string): string =>
  ` ${text
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean)
    .join(' ')}`

const says = (texts: readonly unknown[], words: readonly string[]): boolean => {
  const text = wordsOf(texts.join(' '))
  return words.every(word => text.includes(wordsOf(word)))
}

/** The parts of a list's elements that match one of the words: keys that can be written in the list. */
export const partsWith = (
  { parts = [] }: Pick<OptionField, 'parts'>,
  words: readonly string[],
): readonly OptionPart[] =>
  parts.filter(({ key, help, allowed }) => words.some(word => says([key, help, allowed], [word])))

/**
 * A field must match all words, or their beginnings: in its names, in the texts of it and of its list's parts, or in
 * the list itself.
 */
export function fits(field: OptionField, words: readonly string[]): boolean {
  const { key, label, help, description, allowed, parts = [], type } = field
  const list = type === 'json' ? shownValue(field) : ''
  const below = parts.flatMap(part => [part.key, part.help, part.allowed])
  return says([key, label, help, description, allowed, list, ...below], words)
}

/** The text of a value in its field. */
export function shownValue({ type, value }: Pick<OptionField, 'type' | 'value'>): string {
  if (value === null || value === undefined) return ''
  return type === 'json' ? JSON.stringify(value, null, 2) : String(value)
}

function bounded(value: number, { min, max }: Pick<OptionField, 'min' | 'max'>): Typed {
  if (min !== undefined && value < min) return { error: `at least ${min}` }
  if (max !== undefined && value > max) return { error: `at most ${max}` }
  return { value }
}

/** Text of a field → its value, or the error. */
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
