// The list of sections: the web page, the HTTP API and the terminal UI all show the sections registered here
// (specification, "Display provider and section"). Ordered by priority (descending), then name (X31).
//
// Errors: an invalid provider, name or priority is refused with BAD_REQUEST; a duplicate name with false. A provider
// that throws or hangs affects only its own section: read alone it gives that error, read with others `{error, code}`.

import { type Clock, systemClock } from '../lib/clock'
import { within } from '../lib/deadline'
import { asOsError, OsError } from '../lib/errors'
import { systemTimers, type Timers } from '../lib/timers'
import { type DisplayFormat, parseFormat } from './formats'
import { type Plain, plain } from './plain'
import { type DisplayProvider, formatAs, formatsOf, metadataOf, type ProviderMetadata, priorityOf } from './provider'

/** The plugin name of the built-in sections, and its alias (X31). */
export const CORE_PLUGIN = 'node_core'
export const CORE_ALIAS = 'opensynaptic_core'

export interface SectionFilter {
  readonly category?: string
  /** only sections with at least this priority */
  readonly minPriority?: number
}

export interface RegistryMetadata {
  readonly total_providers: number
  readonly categories: readonly string[]
  readonly providers: readonly ProviderMetadata[]
}

/** Body of GET /api/display/render without `ok`. */
export interface RenderedSection {
  readonly section: string
  readonly format: DisplayFormat
  /** the actual format: JSON if the provider does not offer the requested one */
  readonly resolved_format: DisplayFormat
  readonly render_mode: ProviderMetadata['render_mode']
  readonly data: Plain
}

export interface RenderOptions {
  /** passed to the provider */
  readonly node?: unknown
  readonly options?: Readonly<Record<string, unknown>>
}

const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/
/** time limit for a provider's data */
const DATA_TIMEOUT_MS = 5000
/** a provider that hangs is queried again after this time */
const GIVE_UP_MS = 60_000

interface Running {
  readonly node: unknown
  /** clock.mono() */
  readonly since: number
  readonly work: Promise<Plain>
}

const isProvider = (value: unknown): value is DisplayProvider => {
  const provider = value as Partial<DisplayProvider> | null
  return (
    typeof provider === 'object' &&
    provider !== null &&
    (
      ['extractData', 'formatJson', 'formatHtml', 'formatText', 'formatTable', 'formatTree', 'supportsFormat'] as const
    ).every(name => typeof provider[name] === 'function')
  )
}

const pathOf = ({ plugin_name, section_id }: DisplayProvider): string =>
  `${plugin_name === CORE_ALIAS ? CORE_PLUGIN : plugin_name}:${section_id}`

export class DisplayRegistry {
  readonly #providers = new Map<string, DisplayProvider>()
  /** extractions in progress: further requests for the same node share the result */
  readonly #running = new WeakMap<DisplayProvider, Running>()
  readonly #timers: Timers
  readonly #clock: Clock
  #node: WeakRef<object> | null = null

  constructor(timers: Timers = systemTimers, clock: Clock = systemClock) {
    this.#timers = timers
    this.#clock = clock
  }

  /** The node for providers if the caller names none: the newest of this process, unless one was set. */
  get defaultNode(): object | null {
    return this.#node?.deref() ?? null
  }

  set defaultNode(node: object | null) {
    // a weak reference, so that it does not keep a library's node alive
    this.#node = node && new WeakRef(node)
  }

  /** False if a section of that name exists. Throws BAD_REQUEST. */
  register(provider: DisplayProvider): boolean {
    check(provider)
    const path = pathOf(provider)
    if (this.#providers.has(path)) return false
    this.#providers.set(path, provider)
    return true
  }

  /** False if there is no such section. */
  unregister(pluginName: string, sectionId: string): boolean {
    const path = this.resolve(`${pluginName}:${sectionId}`)
    return path !== undefined && this.#providers.delete(path)
  }

  get(pluginName: string, sectionId: string): DisplayProvider | null {
    return this.#providers.get(this.resolve(`${pluginName}:${sectionId}`) ?? '') ?? null
  }

  /** The section of a name: `plugin:section`, or the bare id of a built-in one. */
  resolve(name: string): string | undefined {
    const [plugin = '', ...section] = String(name ?? '')
      .trim()
      .split(':')
    const path =
      section.length === 0
        ? `${CORE_PLUGIN}:${plugin}`
        : `${plugin === CORE_ALIAS ? CORE_PLUGIN : plugin}:${section.join(':')}`
    return this.#providers.has(path) ? path : undefined
  }

  /** Sections by priority (descending), then name. */
  list({ category, minPriority }: SectionFilter = {}): [path: string, provider: DisplayProvider][] {
    return [...this.#providers]
      .filter(([, provider]) => category === undefined || provider.category === category)
      .filter(([, provider]) => minPriority === undefined || priorityOf(provider) >= minPriority)
      .sort(([a, p], [b, q]) => priorityOf(q) - priorityOf(p) || (a < b ? -1 : 1))
  }

  categories(): string[] {
    return [...new Set([...this.#providers.values()].map(({ category }) => category))].sort()
  }

  metadata(filter: SectionFilter = {}): RegistryMetadata {
    const providers = this.list(filter).map(([, provider]) => metadataOf(provider))
    return { total_providers: providers.length, categories: this.categories(), providers }
  }

  /** One section. Throws NOT_FOUND `section not found`, BAD_REQUEST `unknown format`, TIMEOUT, and the provider's errors. */
  async render(
    name: string,
    format: unknown = 'json',
    { node, options = {} }: RenderOptions = {},
  ): Promise<RenderedSection> {
    const requested = parseFormat(format)
    const path = this.resolve(name)
    const provider = path === undefined ? undefined : this.#providers.get(path)
    if (path === undefined || !provider)
      throw new OsError('NOT_FOUND', 'section not found', { details: { section: String(name).slice(0, 200) } })
    const resolved = formatsOf(provider).includes(requested) ? requested : 'json'
    const data = formatAs(provider, await this.#extract(path, provider, node ?? this.defaultNode, options), resolved)
    return {
      section: path,
      format: requested,
      resolved_format: resolved,
      render_mode: metadataOf(provider).render_mode,
      data,
    }
  }

  /** Sections by name in order; one that fails is `{error, code}`. Throws BAD_REQUEST for an unknown format. */
  async collect(
    format: unknown = 'json',
    { node, options, ...filter }: SectionFilter & RenderOptions = {},
  ): Promise<Record<string, Plain>> {
    const requested = parseFormat(format)
    const sections = this.list(filter).map(async ([path]): Promise<[string, Plain]> => {
      const { data } = await this.render(path, requested, { node, options }).catch(error => ({ data: failure(error) }))
      return [path, data]
    })
    return Object.fromEntries(await Promise.all(sections))
  }

  #work(provider: DisplayProvider, node: unknown, options: Readonly<Record<string, unknown>>): Promise<Plain> {
    const start = async (): Promise<Plain> => plain(await provider.extractData(node, options))
    if (Object.keys(options).length > 0) return start()
    const running = this.#running.get(provider)
    if (running && running.node === node && this.#clock.mono() - running.since < GIVE_UP_MS) return running.work
    const mine: Running = { node, since: this.#clock.mono(), work: start() }
    this.#running.set(provider, mine)
    const done = (): void => {
      if (this.#running.get(provider) === mine) this.#running.delete(provider)
    }
    mine.work.then(done, done)
    return mine.work
  }

  /** The provider's data; a provider that is still running is not called again. */
  async #extract(
    path: string,
    provider: DisplayProvider,
    node: unknown,
    options: Readonly<Record<string, unknown>>,
  ): Promise<Plain> {
    const work = this.#work(provider, node, options)
    return within(this.#timers, DATA_TIMEOUT_MS, work, () => {
      throw new OsError('TIMEOUT', `section ${path} returned no data within ${DATA_TIMEOUT_MS / 1000} s`)
    })
  }
}

/** Shown in place of a section that failed. */
export function failure(thrown: unknown): { error: string; code: string } {
  const { message, code } = asOsError(thrown)
  return { error: message, code }
}

function check(provider: unknown): asserts provider is DisplayProvider {
  if (!isProvider(provider)) throw new OsError('BAD_REQUEST', 'a display provider extends DisplayProvider')
  const { plugin_name, section_id, priority } = provider
  for (const [what, name] of Object.entries({ plugin_name, section_id }))
    if (typeof name !== 'string' || !NAME.test(name))
      throw new OsError('BAD_REQUEST', `${what} ${JSON.stringify(name)} is not of letters, digits, _, - and .`)
  if (!Number.isInteger(priority) || priority < 0 || priority > 100)
    throw new OsError(
      'BAD_REQUEST',
      `priority of ${plugin_name}:${section_id} must be a whole number 0–100, not ${priority}`,
    )
}
