// Components shared by all views. Text of a device or of the gateway only ever becomes a text node.
import type { ComponentChildren, ComponentProps } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { numberText, type Scale, valueText } from '../../../units/display'
import { sparkline } from '../format'
import type { ApiError } from '../lib/api'
import type { Resource } from '../lib/resource'

export function Card({
  title,
  corner,
  children,
  class: more = '',
}: {
  title?: string
  corner?: ComponentChildren
  children?: ComponentChildren
  class?: string
}) {
  return (
    <section class={`card ${more}`} aria-label={title}>
      {title !== undefined && (
        <div class="card-head">
          <h2>{title}</h2>
          {corner}
        </div>
      )}
      {children}
    </section>
  )
}

/** A state with its colour and a sign, because colour alone is not accessible. */
export const Pill = ({ state, text }: { state: string; text?: string | undefined }) => (
  <span class="pill" data-state={state}>
    {text ?? state}
  </span>
)

/** A button that submits no form. */
export const Button = (props: ComponentProps<'button'>) => <button type="button" class="plain" {...props} />

export const Chip = ({ children }: { children: ComponentChildren }) => <span class="chip">{children}</span>

/** Shown if there is no data, or after an error. */
export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>

function troubleText(error: ApiError, what: string): string {
  if (error.status === 0) return 'The gateway is not reachable. This part reloads automatically.'
  if (error.status === 404 && error.code === 'NOT_FOUND' && error.message === 'not found')
    return `This gateway does not offer ${what}.`
  return `${error.message[0]?.toUpperCase() ?? ''}${error.message.slice(1)}.`
}

export const Trouble = ({ error, what }: { error: ApiError; what: string }) => (
  <p class="empty" data-bad={error.status !== 404 && error.status !== 503}>
    {troubleText(error, what)}
  </p>
)

/** The progress of an upload; undefined without one. */
export const Sent = ({ percent }: { percent: number | undefined }) =>
  percent === undefined ? null : <p role="status">Uploading: {percent} %</p>

export const Problem = ({ children }: { children: ComponentChildren }) => (
  <p class="error" role="alert">
    {children}
  </p>
)

/** Shows the data of a resource, or why there is none yet. */
export function Loaded<T>({
  from,
  what,
  children,
}: {
  from: Resource<T>
  what: string
  children: (data: T) => ComponentChildren
}) {
  const { data, error } = from
  return (
    <>
      {error && <Trouble error={error} what={what} />}
      {data === undefined ? !error && <Empty>Loading …</Empty> : children(data)}
    </>
  )
}

/** The items of a resource's list, each as a row; `empty` if there are none. */
export const Items = <T, I>({
  from,
  what,
  of,
  empty,
  children,
}: {
  from: Resource<T>
  what: string
  of(data: T): readonly I[]
  empty: string
  children: (item: I) => ComponentChildren
}) => (
  <Loaded from={from} what={what}>
    {data => (of(data).length === 0 ? <Empty>{empty}</Empty> : <ul class="rows">{of(data).map(children)}</ul>)}
  </Loaded>
)

/** A table that scrolls sideways; a column is its title and its class. */
export const Table = ({
  columns,
  class: more,
  caption,
  children,
}: {
  columns: readonly (string | readonly [title: string, more: string])[]
  class?: string
  caption?: string
  children: ComponentChildren
}) => (
  <div class="scroll">
    <table class={more}>
      {caption !== undefined && <caption class="hidden">{caption}</caption>}
      <thead>
        <tr>
          {columns.map(column => {
            const [title, own] = typeof column === 'string' ? [column] : column
            return (
              <th key={title} scope="col" class={own}>
                {title}
              </th>
            )
          })}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </div>
)

/** A field with its label. */
export const Entry = ({ label, ...input }: ComponentProps<'input'> & { label: string }) => (
  <div>
    <label for={input.id}>{label}</label>
    <input {...input} />
  </div>
)

/** A field to look for something by words. */
export const Search = ({
  id,
  label,
  text,
  onText,
}: {
  id: string
  label: string
  text: string
  onText(text: string): void
}) => (
  <>
    <label for={id}>{label}</label>
    <input
      id={id}
      type="search"
      value={text}
      autocapitalize="none"
      onInput={event => onText(event.currentTarget.value)}
    />
  </>
)

export const Check = ({
  id,
  label,
  on,
  onChange,
}: {
  id: string
  label: string
  on: boolean
  onChange(on: boolean): void
}) => (
  <div class="check">
    <input id={id} type="checkbox" checked={on} onChange={event => onChange(event.currentTarget.checked)} />
    <label for={id}>{label}</label>
  </div>
)

/** An on/off switch with its label. */
export function Switch({
  id,
  label,
  on,
  disabled = false,
  onChange,
}: {
  id?: string
  label: string
  on: boolean
  disabled?: boolean
  onChange(on: boolean): void
}) {
  return (
    <button
      type="button"
      id={id}
      class="switch"
      role="switch"
      aria-checked={on}
      aria-label={label}
      disabled={disabled}
      onClick={() => onChange(!on)}
    >
      <span class="knob" />
    </button>
  )
}

/** A choice of exactly one option, as adjacent buttons. */
export function Choice<T extends string>({
  label,
  value,
  choices,
  onChoose,
}: {
  label: string
  value: T
  choices: readonly (readonly [T, string])[]
  onChoose(value: T): void
}) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset would draw its frame around a row of buttons
    <div class="choice" role="group" aria-label={label}>
      {choices.map(([key, text]) => (
        <button key={key} type="button" aria-pressed={key === value} onClick={() => onChoose(key)}>
          {text}
        </button>
      ))}
    </div>
  )
}

/** A canonical value in display units, those of `scale` if several values share them; the tooltip has the canonical value. */
export function Value({ value, unit, scale }: { value: number | null; unit: string; scale?: Scale }) {
  const text = value === null ? { value: '—', unit: '' } : valueText(value, unit, scale)
  return (
    <span title={value === null ? 'no value' : `${numberText(value)} ${unit}`.trim()}>
      <span class="value">{text.value}</span> {text.unit !== '' && <span class="unit">{text.unit}</span>}
    </span>
  )
}

const WIDTH = 120
const HEIGHT = 26

export const Spark = ({ values, kept = 60 }: { values: readonly number[]; kept?: number }) => (
  <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
    <polyline
      class="line"
      points={sparkline(values.slice(-kept), WIDTH, HEIGHT, Math.min(kept, Math.max(12, values.length)))}
    />
  </svg>
)

/** Asks before an irreversible action. The browser's own dialog handles focus and Escape correctly. */
export function Confirm({
  title,
  action,
  onYes,
  onClose,
  children,
}: {
  title: string
  action: string
  onYes(): void
  onClose(): void
  children: ComponentChildren
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog ref={dialog} class="dialog" aria-label={title} onClose={onClose}>
      <h2>{title}</h2>
      {children}
      <div class="buttons">
        <Button onClick={onClose}>Cancel</Button>
        <Button
          class="danger"
          onClick={() => {
            onClose()
            onYes()
          }}
        >
          {action}
        </Button>
      </div>
    </dialog>
  )
}
