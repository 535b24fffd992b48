// Selects the signals of a DBC file that a source reads, as channels in the file's order, and the frames that contain
// them. Pure. Errors (CONFIG_INVALID with the reason): nothing chosen; a pattern or a channel of the options that
// matches no signal; more signals than one group allows; two signals with the same id. An unknown unit becomes an
// annotation (`{steps}`) and is listed.
import { nearest } from '../../../src/config'
import { OsError } from '../../../src/lib/errors'
import { safeName } from '../../../src/links/names'
import { resolve } from '../../../src/units/canonical'
import { distinctIds, ValueChannel } from '../../kit/channel'
import type { StatusRule } from '../../kit/common-options'
import { matcher } from '../../kit/match'
import { pgnOf } from './j1939'
import type { Dbc, DbcMessage, DbcSignal } from './model'
import type { CanSourceOptions } from './signal-options'

/** one group is one record and, if it fits, one packet */
const MAX_CHANNELS = 512

export interface PlannedMessage {
  readonly message: DbcMessage
  /** its id is a parameter group */
  readonly j1939: boolean
  /** signal name → index in `channels` */
  readonly channels: ReadonlyMap<string, number>
}

export interface SignalPlan {
  readonly channels: readonly ValueChannel[]
  readonly messages: readonly PlannedMessage[]
  /** notes for people: unknown units, skipped lines of the file */
  readonly warnings: readonly string[]
}

interface Chosen {
  readonly message: DbcMessage
  readonly signal: DbcSignal
  /** `Message.Signal` */
  readonly path: string
}

/** The channels and messages of `dbc` that the options of the source `name` select. Throws CONFIG_INVALID. */
export function plan(name: string, dbc: Dbc, options: CanSourceOptions): SignalPlan {
  const refuse = (why: string, hint?: string): OsError =>
    new OsError('CONFIG_INVALID', `options of ${name}: ${why}`, { ...(hint && { hint }) })
  if (dbc.messages.length === 0)
    throw refuse(`${options.dbc} describes no message${dbc.problems[0] ? ` (${dbc.problems[0]})` : ''}`)
  const warnings = dbc.problems.length > 0 ? [problemText(options.dbc, dbc.problems)] : []
  const all = dbc.messages.flatMap(message =>
    message.signals.map(signal => ({ message, signal, path: `${message.name}.${signal.name}` })),
  )
  const chosen = choose(all, patterns(options), refuse)
  if (chosen.length > MAX_CHANNELS)
    throw refuse(`${chosen.length} signals are chosen, ${MAX_CHANNELS} at most`, 'choose some of them with match')
  const settings = settingsOf(all, options.channels, refuse)
  const counts = new Map<string, number>()
  for (const { signal } of all) counts.set(signal.name, (counts.get(signal.name) ?? 0) + 1)
  const unknown = new Set<string>()
  const channels = chosen.map(({ signal, path }) => {
    const own = settings.get(path)
    const unit = own?.unit ?? unitOf(signal.unit)
    if (own?.unit === undefined && unit.startsWith('{')) unknown.add(unit)
    const alone = counts.get(signal.name) === 1
    // combines the scaling of the file with scale and offset of the options
    const scale = own?.scale ?? 1
    const offset = signal.offset * scale + (own?.offset ?? 0)
    const status = [...(own?.status ?? []), ...(options.value_words ? wordsOf(signal, scale, own?.offset) : [])]
    const id = own?.id ?? safeName(alone ? signal.name : path)
    return new ValueChannel({ id, unit, scale: signal.factor * scale, offset, status })
  })
  distinctIds(channels, name)
  if (unknown.size > 0)
    warnings.push(`unknown units are kept as notes: ${[...unknown].slice(0, 8).join(', ')}; channels.*.unit mends it`)
  return { channels, messages: messagesOf(chosen, options.j1939), warnings }
}

const problemText = (file: string, problems: readonly string[]): string =>
  `${file}: ${problems.slice(0, 3).join('; ')}${problems.length > 3 ? `; ${problems.length - 3} more` : ''}`

const patterns = ({ match }: CanSourceOptions): readonly string[] =>
  match == null ? ['*'] : typeof match === 'string' ? [match] : match

type Refuse = (why: string, hint?: string) => OsError

function choose(all: readonly Chosen[], wanted: readonly string[], refuse: Refuse): Chosen[] {
  const found = new Set<Chosen>()
  for (const pattern of wanted) {
    const matches = matcher(pattern)
    const before = all.filter(one => matches(one.path) || matches(one.signal.name) || matches(one.message.name))
    if (before.length === 0) {
      const names = [...all.map(one => one.path), ...all.map(one => one.signal.name)]
      const meant = nearest(pattern, [...new Set(names)].slice(0, 5000))
      throw refuse(`no signal matches ${pattern}`, meant ? `did you mean ${meant}?` : undefined)
    }
    for (const one of before) found.add(one)
  }
  return all.filter(one => found.has(one))
}

type Settings = CanSourceOptions['channels'][string]

/** Options of single signals, by `Message.Signal`. */
function settingsOf(
  all: readonly Chosen[],
  options: CanSourceOptions['channels'],
  refuse: Refuse,
): ReadonlyMap<string, Settings> {
  const byPath = new Map<string, Settings>()
  for (const [key, settings] of Object.entries(options)) {
    const meant = all.filter(one => one.path === key || one.signal.name === key)
    if (meant.length === 0) throw refuse(`channels.${key}: no message has such a signal`)
    if (meant.length > 1) throw refuse(`channels.${key}: ${meant.map(one => one.path).join(' and ')} have this name`)
    byPath.set(meant[0]!.path, settings)
  }
  return byPath
}

/**
 * A unit of the file in the notation of src/units: common spellings unchanged, none as '1', an unknown one as an
 * annotation. Repairs degree signs that an editor damaged.
 */
export function unitOf(unit: string): string {
  const text = unit
    .trim()
    .replace(/Â(?=[°µ²³])/g, '')
    .replace(/(?:ï¿½|\ufffd)(?=\s*[CF]$)/, '°')
  if (text === '' || text === '-') return '1'
  if (resolve(text)) return text
  const note = text.replace(/[^\x21-\x7e]+/g, '_').replace(/[{}[\]"]/g, '')
  return note === '' ? '1' : `{${note.slice(0, 40)}}`
}

/** Rules that turn the named values of a signal into status words: `Gear R` is GEAR_R. They apply to the value of the reading. */
function wordsOf(signal: DbcSignal, scale: number, offset = 0): StatusRule[] {
  const rules: StatusRule[] = []
  for (const [raw, text] of signal.values ?? []) {
    const status = /[A-Za-z0-9]/.test(text) ? safeName(text).toUpperCase().slice(0, 32) : ''
    if (status !== '') rules.push({ status, equals: (raw * signal.factor + signal.offset) * scale + offset })
  }
  return rules
}

function messagesOf(chosen: readonly Chosen[], j1939: boolean | undefined): PlannedMessage[] {
  const messages = new Map<DbcMessage, Map<string, number>>()
  for (const [place, { message, signal }] of chosen.entries()) {
    const channels = messages.get(message) ?? new Map<string, number>()
    messages.set(message, channels.set(signal.name, place))
  }
  return [...messages].map(([message, channels]) => ({
    message,
    channels,
    j1939: message.format === 'j1939' ? j1939 !== false : message.format === 'extended' && j1939 === true,
  }))
}

/** Identifies a message's frames on the bus: two messages with the same key could not be distinguished. */
export const keyOf = ({ message, j1939 }: PlannedMessage): number => (j1939 ? pgnOf(message.id) : message.id)
