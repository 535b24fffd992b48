// The running port forwarder: matches packets against the rules and sends copies on. Packets of other nodes are matched when
// receivers accept them, and are logged and acknowledged as usual; packets that this node dispatches, and own packets that an
// uplink accepts, are matched when they are sent.
//
// Errors: a packet with a wrong checksum is not forwarded. A packet repeated from the same address within seconds is not
// forwarded (`repeated`), which ends loops between forwarders. A packet that cannot be decrypted or completed (`frames:
// plain` or `full` without its sender's key, `full` before its first FULL) is counted `undecodable`. A packet forwarded
// encrypted is counted `ciphertext`, with one warning per rule. Packets for a target that is down are dropped and counted
// there.

import { type Logger, silentLogger } from '../../lib/logger'
import { LruMap } from '../../lib/lru-map'
import { mediumInfo } from '../../links/registry'
import { isData, isSecure } from '../../wire/commands'
import { crc32c } from '../../wire/crc'
import { readHeader } from '../../wire/frame'
import type { GatewayAccess, PluginNode } from '../contract'
import { ForwardQueue, type TargetCounters } from './forward-queue'
import { type PacketFacts, type Rule, RuleBook, type Target, targetText } from './rules'

interface RuleCounters {
  /** packets that matched the rule */
  matched: number
  /** of these, packets sent to a target, counted once per target */
  forwarded: number
  failed: number
  undecodable: number
  /** packets of secure sessions forwarded encrypted (`frames: raw`): only the owner of their key can read them */
  ciphertext: number
  /** UNIX ms of the last match */
  last_at: number | null
}

interface ForwarderParts {
  readonly node: PluginNode
  readonly gateway?: GatewayAccess
  readonly logger?: Logger
  readonly now: () => number
  readonly maxPending: number
  /** medium of a dispatch without a medium */
  readonly defaultMedium: () => string
}

const MAX_DEVICES = 65_536
/** the same bytes from the same address within this time are one packet */
const REPEAT_MS = 5000
const MAX_REMEMBERED = 4096

export class Forwarder {
  /** total: packets matched against the rules */
  readonly counters = {
    total: 0,
    matched: 0,
    forwarded: 0,
    failed: 0,
    malformed: 0,
    repeated: 0,
    undecodable: 0,
    ciphertext: 0,
  }
  readonly #parts: ForwarderParts
  readonly #logger: Logger
  readonly #rules = new Map<string, RuleCounters>()
  readonly #queues = new Map<string, ForwardQueue>()
  /** device names by their id on the wire */
  readonly #names = new LruMap<number, string>(MAX_DEVICES)
  /** when a packet was last forwarded */
  readonly #recent = new LruMap<string, number>(MAX_REMEMBERED)
  #book = new RuleBook([])
  #undo: (() => void)[] = []

  constructor(parts: ForwarderParts) {
    this.#parts = parts
    this.#logger = parts.logger ?? silentLogger
  }

  get running(): boolean {
    return this.#undo.length > 0
  }

  /** Starts matching packets; does nothing if already started. */
  start(): void {
    if (this.running) return
    const { gateway, node } = this.#parts
    const original = node.dispatch
    const own = Object.hasOwn(node, 'dispatch')
    const wrapped: PluginNode['dispatch'] = (packet, medium) => this.#dispatched(original.bind(node), packet, medium)
    node.dispatch = wrapped
    this.#undo = [
      () => {
        // restore the original, unless another caller replaced ours
        if (node.dispatch !== wrapped) return
        if (own) node.dispatch = original
        else delete (node as Partial<PluginNode>).dispatch
      },
    ]
    if (!gateway) return
    this.#undo.push(
      gateway.onPacket(({ packet, medium, address }) => {
        if (!this.#book.empty) this.#take(packet, 'in', mediumInfo(medium)?.name ?? medium, address)
      }),
      gateway.onSent(({ packet, medium }) => {
        // packets of other nodes were matched when they were received
        if (!this.#book.empty && this.#isOwn(packet)) this.#take(packet, 'out', medium, 'local')
      }),
      gateway.onFact(({ fact, link }) => {
        if (link.medium !== 'local') this.#named(fact.aid, fact.id)
      }),
    )
  }

  async stop(): Promise<void> {
    for (const undo of this.#undo.splice(0)) undo()
    const queues = [...this.#queues.values()]
    this.#queues.clear()
    await Promise.all(queues.map(queue => queue.close()))
  }

  /** Uses these rules from now on; counters of unchanged rules continue. */
  use(rules: readonly Rule[]): void {
    this.#book = new RuleBook(rules, this.#logger)
    const names = new Set(rules.map(rule => rule.name))
    for (const name of this.#rules.keys()) if (!names.has(name)) this.#rules.delete(name)
    const wanted = new Set(rules.flatMap(rule => rule.to.map(targetText)))
    for (const [key, queue] of this.#queues) {
      if (wanted.has(key)) continue
      this.#queues.delete(key)
      void queue.close()
    }
  }

  /** The rules that match such a packet. */
  matching(packet: PacketFacts): Rule[] {
    return this.#book.matching(packet)
  }

  countersOf(rule: string): RuleCounters {
    const known = this.#rules.get(rule)
    if (known) return known
    const fresh = { matched: 0, forwarded: 0, failed: 0, undecodable: 0, ciphertext: 0, last_at: null }
    this.#rules.set(rule, fresh)
    return fresh
  }

  targets(): Record<string, TargetCounters> {
    return Object.fromEntries([...this.#queues].map(([name, { counters }]) => [name, { ...counters }]))
  }

  resetCounters(): void {
    this.#rules.clear()
    for (const key of Object.keys(this.counters)) this.counters[key as keyof typeof this.counters] = 0
  }

  /**
   * A packet that this node sends: to the targets, and also the usual way unless a rule says that only its targets get it.
   */
  async #dispatched(
    original: PluginNode['dispatch'],
    packet: Uint8Array | string,
    medium?: string | null,
  ): Promise<boolean> {
    if (this.#book.empty || typeof packet === 'string') return original(packet, medium)
    const name = mediumInfo(medium ?? this.#parts.defaultMedium())?.name ?? String(medium)
    const { rules, sent } = this.#take(packet, 'out', name, 'local')
    if (rules.every(({ copy }) => copy)) return original(packet, medium)
    return (await Promise.all(sent)).every(Boolean)
  }

  #take(
    packet: Uint8Array,
    direction: 'in' | 'out',
    medium: string,
    address: string,
  ): { rules: Rule[]; sent: Promise<boolean>[] } {
    const { counters } = this
    counters.total++
    const cmd = packet[0] ?? 0
    let aid: number | null = null
    if (isData(cmd)) {
      const header = readHeader(packet)
      if (typeof header === 'string' || !header.crc16Ok) {
        counters.malformed++
        return { rules: [], sent: [] }
      }
      aid = header.sourceAid
    }
    const rules = this.#book.matching({
      direction,
      medium,
      address,
      cmd,
      aid,
      device: () => this.#deviceOf(aid, packet),
    })
    if (rules.length === 0) return { rules, sent: [] }
    if (direction === 'in' && aid !== null && this.#isRepeated(packet, medium, address)) {
      counters.repeated++
      return { rules: [], sent: [] }
    }
    counters.matched++
    // the medium reuses the bytes, and they are sent later
    const copy = packet.slice()
    return { rules, sent: rules.flatMap(rule => this.#forward(rule, copy)) }
  }

  #isOwn(packet: Uint8Array): boolean {
    if (!isData(packet[0] ?? 0)) return false
    const header = readHeader(packet)
    return typeof header !== 'string' && header.sourceAid === this.#parts.node.assignedId
  }

  #isRepeated(packet: Uint8Array, medium: string, address: string): boolean {
    const key = `${crc32c(packet)} ${packet.length} ${medium} ${address}`
    const now = this.#parts.now()
    const before = this.#recent.get(key)
    if (before !== undefined && now - before < REPEAT_MS) return true
    this.#recent.set(key, now)
    return false
  }

  #forward(rule: Rule, packet: Uint8Array): Promise<boolean>[] {
    const mine = this.countersOf(rule.name)
    mine.matched++
    mine.last_at = this.#parts.now()
    const bytes = isData(packet[0]!) ? this.#repacked(packet, rule.frames) : packet
    const count = (what: 'forwarded' | 'failed' | 'undecodable' | 'ciphertext'): void => {
      mine[what]++
      this.counters[what]++
    }
    if (bytes === null) {
      count('undecodable')
      return [Promise.resolve(false)]
    }
    if (isSecure(bytes[0]!)) {
      if (mine.ciphertext === 0)
        this.#logger.warn(
          `rule ${rule.name} forwards encrypted packets: its targets cannot read them without the key (frames plain decrypts them)`,
        )
      count('ciphertext')
    }
    return rule.to.map(async target => {
      const taken = await this.#queue(target).send(bytes)
      count(taken ? 'forwarded' : 'failed')
      return taken
    })
  }

  #repacked(packet: Uint8Array, frames: Rule['frames']): Uint8Array | null {
    if (frames === 'raw') return packet
    const { node, gateway } = this.#parts
    const plain = gateway?.readable(packet) ?? node.readable(packet)
    if (plain === null || frames === 'plain') return plain
    try {
      return node.relay(plain)
    } catch (error) {
      this.#logger.debug(`a packet cannot be made whole: ${String(error)}`)
      return null
    }
  }

  #queue(target: Target): ForwardQueue {
    const key = targetText(target)
    const known = this.#queues.get(key)
    if (known) return known
    const { medium, ...options } = target
    const { node, maxPending } = this.#parts
    const made = new ForwardQueue(() => node.transporterManager.open(medium, options), maxPending)
    this.#queues.set(key, made)
    return made
  }

  #named(aid: number, name: string): void {
    if (this.#names.get(aid) === name) return
    this.#names.set(aid, name)
  }

  /** The name of an unknown device is in its first FULL. */
  #deviceOf(aid: number | null, packet: Uint8Array): string | null {
    if (aid === null) return null
    const known = this.#names.get(aid)
    if (known !== undefined) return known
    const { id } = this.#parts.node.receive(packet) as { id?: unknown }
    if (typeof id !== 'string') return null
    this.#named(aid, id)
    return id
  }
}
