// Whether the links of a configuration that was read anew can be made at all: drivers that exist, options they take. Asked
// before anything is changed, for links that are new or changed only, so that one that cannot be made already (its driver
// is not there, D7) keeps nobody from changing the rest. Throws CONFIG_INVALID with the key and the reason.
import { isDeepStrictEqual } from 'node:util'
import type { Config } from '../../config'
import { asOsError, OsError } from '../../lib/errors'
import { turn } from '../../lib/turn'
import { checkOptions } from '../../links/options'
import { withHardware } from '../../links/physical'
import { portOf, type Registry } from '../../links/registry'

/** An entry of gateway.sources (type), uplinks or receivers (medium). */
interface Entry {
  readonly name: string
  readonly type?: string
  readonly medium?: string
  readonly host?: string
  readonly port?: number | string
}

export interface LinkAsOpened {
  /** kind and name, as people read it */
  readonly what: string
  readonly type: string | undefined
  readonly medium: string | undefined
  readonly options: unknown
}

/**
 * The options that the driver of a link of `config` gets, with its defaults and what physical_config says of the bus. Throws
 * NO_DRIVER, CONFIG_INVALID.
 */
export async function linkOptions(
  given: Entry,
  listens: boolean,
  config: Config,
  registry: Registry,
): Promise<unknown> {
  const buses = config.RESOURCES.physical_config as Record<string, unknown>
  const entry = given.medium === undefined ? given : withHardware(bus => buses[bus], { ...given, medium: given.medium })
  const { name, type, medium, ...rest } = entry
  if (medium === undefined) {
    const { schema } = await registry.sourceDriver(type ?? '')
    const { deadband: _, ...options } = rest as Record<string, unknown>
    return schema ? checkOptions(schema, options, name) : options
  }
  const { schema } = await registry.mediumDriver(medium)
  const options = {
    ...rest,
    port: portOf(medium, rest),
    ...(listens && { mode: 'listen', listen_host: rest.host ?? '0.0.0.0' }),
  }
  return schema ? checkOptions(schema, options, name) : options
}

/** Every link of `config` with the options its driver gets; one that cannot be made as it was typed. */
export function linksAsOpened(config: Config, registry: Registry): Promise<LinkAsOpened[]> {
  const { sources, uplinks, receivers } = config.gateway
  const kinds: Record<string, readonly Entry[]> = { source: sources ?? [], uplink: uplinks, receiver: receivers }
  return Promise.all(
    Object.entries(kinds).flatMap(([kind, entries]) =>
      entries.map(async entry => ({
        ...{ what: `${kind} ${entry.name}`, type: entry.type, medium: entry.medium },
        // its own error is told where it is opened
        options: await linkOptions(entry, kind === 'receiver', config, registry).catch(() => entry),
      })),
    ),
  )
}

/** Throws CONFIG_INVALID naming the first link of `next`, new or changed since `now`, that could not be made. */
export async function checkLinks(now: Config, next: Config, registry: Registry): Promise<void> {
  for (const kind of ['receivers', 'uplinks', 'sources'] as const) {
    const before = new Map((now.gateway[kind] ?? []).map((entry: Entry) => [entry.name, entry]))
    for (const [k, entry] of ((next.gateway[kind] ?? []) as readonly Entry[]).entries()) {
      if (isDeepStrictEqual(before.get(entry.name), entry)) continue
      // a long list must not keep the loop from everything else
      if (k % 20 === 19) await turn()
      const key = `gateway.${kind}.${k}`
      try {
        await linkOptions(entry, kind === 'receivers', next, registry)
      } catch (cause) {
        const { code, message, details } = asOsError(cause)
        throw new OsError(code === 'UNKNOWN_KEY' ? code : 'CONFIG_INVALID', `${key} (${entry.name}): ${message}`, {
          cause,
          details: { ...details, key },
        })
      }
    }
  }
}
