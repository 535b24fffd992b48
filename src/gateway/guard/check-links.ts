// Checks whether the links of a configuration can be created: the driver exists, it accepts the options, the units are known,
// no other source has the same sensor ids. Called before a change is applied, and only for new or changed links: an existing
// link that cannot be created (its driver is missing) must not block other changes. Throws CONFIG_INVALID with the key
// and the reason.
import { isDeepStrictEqual } from 'node:util'
import { type Config, type ConfigStore, isLoopback } from '../../config'
import { systemClock } from '../../lib/clock'
import { counted } from '../../lib/counted'
import { asOsError, OsError } from '../../lib/errors'
import { silentLogger } from '../../lib/logger'
import { yieldToLoop } from '../../lib/yield'
import type { DriverContext } from '../../links/contracts'
import { COMMON, checkOptions, knownOptions, type UnknownOption } from '../../links/driver-options'
import { withHardware } from '../../links/physical'
import { portOf, type Registry } from '../../links/registry'
import type { SourceEntry } from '../intake/test-source'
import { refuseSpecialFiles } from './check-files'
import { refuseStrayPlugins } from './check-plugins'
import { clashesOf, refuseUnknownUnits, sourceOf, unitWarnings } from './check-sensors'

/** An entry of gateway.sources (type), uplinks or receivers (medium). */
interface LinkEntry {
  readonly name: string
  readonly type?: string
  readonly medium?: string
  readonly host?: string
  readonly port?: number | string
}

export interface LinkAsOpened {
  /** kind and name, for messages */
  readonly what: string
  readonly type: string | undefined
  readonly medium: string | undefined
  readonly options: unknown
}

/**
 * The options passed to the driver of a link of `config`: with defaults, and with the bus settings of physical_config. Throws
 * NO_DRIVER, CONFIG_INVALID.
 */
async function linkOptions(
  configured: LinkEntry,
  listens: boolean,
  config: Config,
  registry: Registry,
): Promise<unknown> {
  const { schema, options, common } = await typedOptions(configured, listens, config, registry)
  return schema ? checkOptions(schema, options, configured.name, common) : options
}

/** An entry merged with the settings of its bus in physical_config. */
function onItsBus(entry: LinkEntry, config: Config): LinkEntry {
  const { medium } = entry
  const buses = config.RESOURCES.physical_config as Record<string, unknown>
  return medium === undefined ? entry : withHardware(bus => buses[bus], { ...entry, medium })
}

/** The options as configured, and the driver's schema. Throws NO_DRIVER. */
async function typedOptions(configured: LinkEntry, listens: boolean, config: Config, registry: Registry) {
  const { name: _, type, medium, ...fields } = onItsBus(configured, config)
  if (medium === undefined) {
    const { schema } = await registry.sourceDriver(type ?? '')
    const { deadband: _, ...options } = fields as Record<string, unknown>
    return { schema, options, common: COMMON }
  }
  const { schema } = await registry.mediumDriver(medium)
  const options = {
    ...fields,
    port: portOf(medium, fields),
    ...(listens && { mode: 'listen', listen_host: fields.host ?? '0.0.0.0' }),
  }
  return { schema, options, common: [] }
}

/** Adds the driver-specific checks to a configuration store. */
export function adviseOn(store: ConfigStore, registry: Registry): void {
  store.unknown = () => unknownLinkOptions(store.config, registry)
  store.advice = () => ((store.config.gateway.sources ?? []) as readonly SourceEntry[]).flatMap(unitWarnings)
}

/** Link options that their drivers do not know, by their paths in the configuration. */
export async function unknownLinkOptions(config: Config, registry: Registry): Promise<UnknownOption[]> {
  const found: UnknownOption[] = []
  for (const kind of KINDS)
    for (const [k, entry] of ((config.gateway[kind] ?? []) as readonly LinkEntry[]).entries()) {
      const typed = await typedOptions(entry, kind === 'receivers', config, registry).catch(() => undefined)
      if (!typed?.schema) continue
      for (const { path, text } of knownOptions(typed.schema, typed.options, typed.common).unknown)
        found.push({ path: ['gateway', kind, k, ...path], text })
    }
  return found
}

/** Every link of `config` with the options its driver gets; a link that cannot be created keeps its options as configured. */
export function linksAsOpened(config: Config, registry: Registry): Promise<LinkAsOpened[]> {
  const { sources, uplinks, receivers } = config.gateway
  const kinds: Record<string, readonly LinkEntry[]> = { source: sources ?? [], uplink: uplinks, receiver: receivers }
  return Promise.all(
    Object.entries(kinds).flatMap(([kind, entries]) =>
      entries.map(async entry => ({
        ...{ what: `${kind} ${entry.name}`, type: entry.type, medium: entry.medium },
        // the link reports this error when it is opened
        options: await linkOptions(entry, kind === 'receiver', config, registry).catch(() => entry),
      })),
    ),
  )
}

const KINDS = ['receivers', 'uplinks', 'sources'] as const
type Kind = (typeof KINDS)[number]

export interface LinkProblem {
  readonly kind: Kind
  readonly text: string
  readonly hint: string
  /** the link works, but perhaps not as intended */
  readonly warns?: boolean
}

/** For checks: sources are created but not opened. */
const LOOKING: DriverContext = { clock: systemClock, logger: silentLogger }

/** The first clash of each source, and the number of further ones: a DBC file may have hundreds. */
function bySource(clashes: Awaited<ReturnType<typeof clashesOf>>) {
  return [...new Set(clashes.map(({ source }) => source))].map(name => {
    const [first, ...more] = clashes.filter(({ source }) => source === name)
    const others = more.length > 0 ? `; ${counted(more.length, 'more sensor id')} of ${name} clash` : ''
    return { ...first!, others, text: `the sensor id ${first!.id} belongs to ${first!.owner} already` }
  })
}

/** Throws CONFIG_INVALID if sources of `next` share a sensor id and those of `now` did not. */
async function refuseClashes(now: Config, next: Config, registry: Registry): Promise<void> {
  const [before, after] = [now, next].map(config => (config.gateway.sources ?? []) as readonly SourceEntry[])
  if (isDeepStrictEqual(before, after)) return
  const clashes = await clashesOf(after!, registry, LOOKING)
  if (clashes.length === 0) return
  const old = new Set((await clashesOf(before!, registry, LOOKING)).map(({ source, id }) => `${source} ${id}`))
  const [clash] = bySource(clashes.filter(({ source, id }) => !old.has(`${source} ${id}`)))
  if (!clash) return
  const { source, text, others, proposed, fixed } = clash
  const key = `gateway.sources.${after!.findIndex(({ name }) => name === source)}`
  throw new OsError('CONFIG_INVALID', `${key} (${source}): ${text}`, {
    details: { key, proposed },
    hint: fixed
      ? `choose other sensors with match, or leave out this source; a gateway that has both logs it as ${proposed}${others}`
      : `give this sensor the id ${proposed}${others}`,
  })
}

/** Throws CONFIG_INVALID if the page, on the address from the command line, would require no token. */
export function refuseOpenPage({ web_user }: Config, host: string | undefined): void {
  if (web_user.auth_enabled || host === undefined || isLoopback(host)) return
  throw new OsError('CONFIG_INVALID', `web_user.auth_enabled must be true while the page listens on ${host}`, {
    hint: 'start without --lan and --host first: without auth the page listens on 127.0.0.1 only',
    details: { key: 'web_user.auth_enabled' },
  })
}

/**
 * Throws UNKNOWN_KEY for settings of a plugin that does not exist, and CONFIG_INVALID for the first link of `next`, new or
 * changed since `now`, that cannot be created, or whose readings would be lost or mixed with those of another.
 */
export async function checkLinks(now: Config, next: Config, registry: Registry): Promise<void> {
  refuseSpecialFiles(now, next)
  refuseStrayPlugins(now, next)
  for (const kind of KINDS) {
    const before = new Map((now.gateway[kind] ?? []).map((entry: LinkEntry) => [entry.name, entry]))
    for (const [k, entry] of ((next.gateway[kind] ?? []) as readonly LinkEntry[]).entries()) {
      const old = before.get(entry.name)
      if (old && isDeepStrictEqual(onItsBus(old, now), onItsBus(entry, next))) continue
      // yield to the event loop: the list may be long
      if (k % 20 === 19) await yieldToLoop()
      const key = `gateway.${kind}.${k}`
      try {
        await checkLink(kind, entry, next, registry)
      } catch (cause) {
        const { code, message, details, hint } = asOsError(cause)
        throw new OsError(code === 'UNKNOWN_KEY' ? code : 'CONFIG_INVALID', `${key} (${entry.name}): ${message}`, {
          ...{ cause, hint },
          details: { ...details, key },
        })
      }
    }
  }
  await refuseClashes(now, next, registry)
}

/** Throws CONFIG_INVALID if a link cannot be created, or if readings of a source would be refused. */
async function checkLink(kind: Kind, entry: LinkEntry, config: Config, registry: Registry): Promise<void> {
  const options = await linkOptions(entry, kind === 'receivers', config, registry)
  if (entry.medium !== undefined) (await registry.mediumDriver(entry.medium)).check?.(options)
  if (kind !== 'sources') return
  refuseUnknownUnits(entry as SourceEntry, config.engine_settings.unit_dialect)
  await sourceOf(entry as SourceEntry, registry, LOOKING)
}

/** All problems with the links of a configuration file, for the doctor. */
export async function linkProblems(config: Config, registry: Registry): Promise<LinkProblem[]> {
  const found: LinkProblem[] = []
  for (const kind of KINDS)
    for (const entry of (config.gateway[kind] ?? []) as readonly LinkEntry[]) {
      try {
        await checkLink(kind, entry, config, registry)
      } catch (thrown) {
        const { message, hint, details } = asOsError(thrown)
        const { keys, unknown } = details as { keys?: unknown[]; unknown?: unknown[] }
        // the link starts without unknown options; any other problem keeps it down
        const warns = unknown !== undefined && unknown.length === keys?.length
        found.push({ kind, text: `${entry.name}: ${message}`, hint, warns })
      }
    }
  const sources = (config.gateway.sources ?? []) as readonly SourceEntry[]
  for (const { source, text, others, proposed, fixed } of bySource(await clashesOf(sources, registry, LOOKING)))
    found.push({
      ...{ kind: 'sources', warns: true, text: `${source}: ${text}` },
      hint: `it is logged as ${proposed}: ${fixed ? 'choose other sensors with match' : 'give this sensor its own id'}${others}`,
    })
  for (const text of sources.flatMap(unitWarnings)) found.push({ kind: 'sources', warns: true, text, hint: 'use Cel' })
  return found
}
