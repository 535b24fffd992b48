// One setting of the schema as a form field: its input by type, its help, its requirements, and its error.
import type { TargetedInputEvent } from 'preact'
import { partsWith, shownValue } from '../lib/edits'
import type { OptionField } from '../lib/types'
import { Chip, Problem, Switch } from './parts'

interface Props {
  field: OptionField
  /** typed but not saved; undefined: untouched */
  edit: string | undefined
  error: string | undefined
  disabled: boolean
  /** words of the search */
  words: readonly string[]
  onEdit(text: string | undefined): void
}

/** keyboard layout on a phone */
const KEYBOARDS: Readonly<Record<string, 'numeric' | 'decimal'>> = { int: 'numeric', float: 'decimal' }

const range = ({ min, max }: OptionField): string => {
  if (min !== undefined && max !== undefined) return `${min} to ${max}`
  if (min !== undefined) return `from ${min}`
  return max !== undefined ? `up to ${max}` : ''
}

function Input({ field, edit, error, disabled, onEdit }: Props) {
  const { key, type, choices, secret } = field
  const first = shownValue(field)
  const text = edit ?? first
  const common = {
    id: `option-${key}`,
    disabled,
    'aria-describedby': `help-${key}`,
    'aria-invalid': error !== undefined,
  }
  const change = (next: string): void => onEdit(next === first ? undefined : next)
  if (type === 'bool')
    return (
      <Switch id={common.id} label={key} on={text === 'true'} disabled={disabled} onChange={on => change(String(on))} />
    )
  if (choices && choices.length > 0)
    return (
      <select {...common} value={text} onChange={event => change(event.currentTarget.value)}>
        {!choices.some(choice => String(choice) === first) && <option value={first}>{first || '—'}</option>}
        {choices.map(choice => (
          <option key={String(choice)} value={String(choice)}>
            {String(choice)}
          </option>
        ))}
      </select>
    )
  if (type === 'json')
    return (
      <textarea
        {...common}
        rows={Math.min(12, Math.max(2, text.split('\n').length))}
        spellcheck={false}
        autocapitalize="none"
        value={text}
        onInput={event => change(event.currentTarget.value)}
      />
    )
  const line = {
    ...common,
    autocomplete: 'off',
    autocapitalize: 'none',
    spellcheck: false,
    value: text,
    onInput: (event: TargetedInputEvent<HTMLInputElement>): void => change(event.currentTarget.value),
  } as const
  if (secret) return <input {...line} type="password" />
  return <input {...line} type="text" inputMode={KEYBOARDS[type] ?? 'text'} />
}

export function Field(props: Props) {
  const { field, edit, error, words } = props
  const { key, help, description, restart, writable } = field
  const about = [help || description, range(field)].filter(Boolean).join(' · ')
  return (
    <div class="option" data-changed={edit !== undefined}>
      <div class="option-head">
        <label for={`option-${key}`} class="mono">
          {key}
        </label>
        {restart && <Chip>needs a restart</Chip>}
        {!writable && <Chip>read-only over HTTP</Chip>}
      </div>
      <Input {...props} />
      <p class="quiet small" id={`help-${key}`}>
        {about}
      </p>
      {partsWith(field, words).map(part => (
        <p key={part.key} class="quiet small">
          <span class="mono">{part.key}</span> {part.help} ({part.allowed})
        </p>
      ))}
      {error !== undefined && <Problem>{error}</Problem>}
    </div>
  )
}
