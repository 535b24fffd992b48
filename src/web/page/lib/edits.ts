// What is in a field of the settings → the value the gateway gets, checked here so that a typing mistake shows at once.
// The gateway checks again.
import type { OptionField, OptionPart } from './types'

type Typed = { readonly value: unknown } | { readonly error: string }

/** A saving's answer as the form takes it: what stays typed, what is wrong with it, and the refusals of no field. */
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
    // the field itself, or the list whose element is refused: gateway.uplinks.0.port
    const field = kept
      .map(([name]) => name)
      .find(name => key === name || key.startsWith(`${name}.`) || key.startsWith(`${name}[`))
    if (field === undefined) others.push(error)
    else errors[field] = errors[field] === undefined ? error : `${errors[field]}; ${error}`
  }
  return { edits: Object.fromEntries(kept), errors, others }
}

/** Words one after the other: `gateway.log.max_bytes` is found as typed, and `sources` is no part of RESOURCES. */
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

/** The parts of a list's elements that have one of the words: what to write in the list. */
export const partsWith = (
  { parts = [] }: Pick<OptionField, 'parts'>,
  words: readonly string[],
): readonly OptionPart[] =>
  parts.filter(({ key, help, allowed }) => words.some(word => says([key, help, allowed], [word])))

/** A field has all the words, or beginnings of them: in its names, in what it and the parts of its list say, or in a list itself. */
export function fits(field: OptionField, words: readonly string[]): boolean {
  const { key, label, help, description, allowed, parts = [], type } = field
  const list = type === 'json' ? shownValue(field) : ''
  const below = parts.flatMap(part => [part.key, part.help, part.allowed])
  return says([key, label, help, description, allowed, list, ...below], words)
}

/** A value as it is in its field. */
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
