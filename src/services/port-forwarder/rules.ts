// Rules of the port forwarder: which packets match, and where they are sent. Rules are in named sets; in each set only the
// first match by priority counts (highest first, then insertion order), and all sets apply. A rule may have several targets.
//
// Errors: an invalid rule is BAD_REQUEST with its key. The rule file is checked completely and never overwritten if it is
// damaged (STORAGE).
import * as v from 'valibot'
import { allowList } from '../../gateway/receive/allow-list'
import { OsError } from '../../lib/errors'
import { type Logger, silentLogger } from '../../lib/logger'
import { mediumInfo } from '../../links/registry'
import { COMMAND, isData } from '../../wire/commands'

const NAME = v.pipe(v.string(), v.regex(/^[A-Za-z0-9_.-]{1,64}$/, 'a name of 1 to 64 letters, digits, _ . or -'))
const texts = v.optional(v.array(v.pipe(v.string(), v.minLength(1), v.maxLength(256))), [])

const TARGET = v.looseObject({
  medium: v.pipe(
    v.string(),
    v.check(name => mediumInfo(name) !== undefined, 'a medium such as UDP, TCP, MQTT'),
    v.transform(name => mediumInfo(name)!.name),
  ),
  host: v.optional(v.pipe(v.string(), v.minLength(1))),
  port: v.optional(v.union([v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(65_535)), v.string()])),
})

const RULE = v.strictObject({
  name: NAME,
  set: v.optional(NAME, 'default'),
  enabled: v.optional(v.boolean(), true),
  /** higher first */
  priority: v.optional(v.pipe(v.number(), v.integer(), v.minValue(-1000), v.maxValue(1000)), 0),
  /** in: received packets; out: packets of this node, sent by an uplink or a dispatch */
  direction: v.optional(v.picklist(['in', 'out', 'both']), 'both'),
  /** media of the packet; empty: any */
  medium: texts,
  /** addresses, address ranges, or an address as the medium writes it; empty: any */
  source: texts,
  /** command bytes by name or number; empty: all data packets */
  command: texts,
  /** ids on the wire or device names; empty: any */
  device: texts,
  /**
   * raw: unchanged; plain: packets of secure sessions are decrypted; full: also converted to packets that decode without
   * earlier ones, so that a target may start at any packet
   */
  frames: v.optional(v.picklist(['raw', 'plain', 'full']), 'raw'),
  /** false: packets dispatched here are sent to the targets only */
  copy: v.optional(v.boolean(), true),
  to: v.pipe(v.array(TARGET), v.minLength(1), v.maxLength(64)),
})

export type Rule = v.InferOutput<typeof RULE>
export type Target = v.InferOutput<typeof TARGET>

/** The properties of a packet that rules match. */
export interface PacketFacts {
  readonly direction: 'in' | 'out'
  /** the specification's spelling */
  readonly medium: string
  readonly address: string
  readonly cmd: number
  /** null: the command has no AID */
  readonly aid: number | null
  /** name of the device; looked up only if a rule needs it */
  device(): string | null
}

/** A checked rule with defaults. Throws BAD_REQUEST. */
export function checkRule(input: unknown): Rule {
  const result = v.safeParse(RULE, input)
  if (!result.success) {
    const [issue] = result.issues
    const key = v.getDotPath(issue) ?? 'rule'
    throw new OsError('BAD_REQUEST', `${key}: ${issue.message}`, { details: { key } })
  }
  for (const medium of result.output.medium)
    if (!mediumInfo(medium)) throw new OsError('BAD_REQUEST', `medium: ${JSON.stringify(medium)} is unknown`)
  for (const word of result.output.command) commandBytes(word)
  return result.output
}

/** `tcp://10.0.0.2:8888`, `mqtt`, `udp://[::1]:9000`, `uart:///dev/ttyS0`. Throws BAD_REQUEST. */
export function parseTarget(text: string): Target {
  const [, medium = '', place = ''] = /^([A-Za-z0-9]+)(?::\/\/(.*))?$/s.exec(text.trim()) ?? []
  const wrong = (): OsError =>
    new OsError('BAD_REQUEST', `${JSON.stringify(text)} is no target`, { hint: 'as in tcp://10.0.0.2:8888 or mqtt' })
  if (!mediumInfo(medium)) throw wrong()
  if (place === '') return { medium: mediumInfo(medium)!.name }
  if (place.startsWith('/')) return { medium: mediumInfo(medium)!.name, port: place }
  const [, host = '', port] = /^(\[[0-9a-fA-F:.%]+\]|[^:/\s]+)(?::(\d{1,5}))?$/.exec(place) ?? []
  if (host === '' || (port !== undefined && (Number(port) < 1 || Number(port) > 65_535))) throw wrong()
  return {
    medium: mediumInfo(medium)!.name,
    host: host.replace(/^\[|\]$/g, ''),
    ...(port !== undefined && { port: Number(port) }),
  }
}

export const targetText = ({ medium, host, port }: Target): string => {
  if (host === undefined) return port === undefined ? medium.toLowerCase() : `${medium.toLowerCase()}://${port}`
  return `${medium.toLowerCase()}://${host.includes(':') ? `[${host}]` : host}${port === undefined ? '' : `:${port}`}`
}

/** `data`, `full`, `DATA_DIFF`, `0x3f`, `63`. Throws BAD_REQUEST. */
export function commandBytes(word: string): number[] {
  const upper = word.trim().toUpperCase()
  const all = Object.entries(COMMAND)
  if (upper === 'DATA') return all.filter(([, byte]) => isData(byte)).map(([, byte]) => byte)
  if (upper === 'CONTROL') return all.filter(([, byte]) => !isData(byte)).map(([, byte]) => byte)
  const named = all.filter(([name]) => name === upper || name === `DATA_${upper}` || name === `DATA_${upper}_SEC`)
  if (named.length > 0) return named.map(([, byte]) => byte)
  const number = /^(0X[0-9A-F]{1,2}|\d{1,3})$/.test(upper) ? Number(upper) : Number.NaN
  if (number >= 0 && number <= 255) return [number]
  throw new OsError('BAD_REQUEST', `command: ${JSON.stringify(word)} is no command byte`, {
    hint: `a number, data, control, full, diff, heart, or one of ${all.map(([name]) => name).join(', ')}`,
  })
}

/** The rules, prepared for matching. */
export class RuleBook {
  readonly #sets: { rule: Rule; matches: (packet: PacketFacts) => boolean }[][]

  constructor(rules: readonly Rule[], logger: Logger = silentLogger) {
    const sets = new Map<string, Rule[]>()
    for (const rule of rules) if (rule.enabled) sets.set(rule.set, [...(sets.get(rule.set) ?? []), rule])
    this.#sets = [...sets.values()].map(set =>
      set
        .map((rule, k) => ({ rule, k }))
        .sort((a, b) => b.rule.priority - a.rule.priority || a.k - b.k)
        .map(({ rule }) => ({ rule, matches: compile(rule, logger) })),
    )
  }

  get empty(): boolean {
    return this.#sets.length === 0
  }

  /** The first match of each set. */
  matching(packet: PacketFacts): Rule[] {
    const found: Rule[] = []
    for (const set of this.#sets) {
      const hit = set.find(({ matches }) => matches(packet))
      if (hit) found.push(hit.rule)
    }
    return found
  }
}

function compile(rule: Rule, logger: Logger): (packet: PacketFacts) => boolean {
  const media = new Set(rule.medium.map(name => mediumInfo(name)?.name))
  const commands = new Set(rule.command.flatMap(commandBytes))
  const from = allowList(rule.source, logger, `rule ${rule.name}: source`)
  const aids = new Set(rule.device.filter(word => /^\d{1,10}$/.test(word)).map(Number))
  const names = new Set(rule.device)
  return packet => {
    if (rule.direction !== 'both' && rule.direction !== packet.direction) return false
    if (media.size > 0 && !media.has(packet.medium)) return false
    // a rule without commands matches readings only: pings and requests belong to their link
    if (commands.size > 0 ? !commands.has(packet.cmd) : !isData(packet.cmd)) return false
    if (rule.source.length > 0 && !from(packet.address)) return false
    if (names.size === 0) return true
    if (packet.aid !== null && aids.has(packet.aid)) return true
    if (aids.size === names.size) return false
    const device = packet.device()
    return device !== null && names.has(device)
  }
}
