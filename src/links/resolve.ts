// Host names to addresses without getaddrinfo (decision 0024: it would occupy the pool that serves fdatasync) and without
// repeated queries: IP literals and localhost directly, /etc/hosts, then DNS through c-ares. An answer is cached until
// it expires; if DNS fails, or reports that the name no longer exists, the last address stays in use (R13) and is
// resolved again half a minute later. Fails only if a name was never resolved: NETWORK.

import { Resolver } from 'node:dns/promises'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { type Clock, systemClock } from '../lib/clock'
import { asOsError, errno, OsError, orElse } from '../lib/errors'
import { type Logger, silentLogger } from '../lib/logger'
import { LruMap } from '../lib/lru-map'

export interface HostAddress {
  readonly address: string
  readonly family: 4 | 6
}

export interface DnsAnswer {
  address: string
  /** seconds */
  ttl: number
}

/** Queries DNS for the A (4) or AAAA (6) records of a name. */
type DnsQuery = (name: string, family: 4 | 6) => Promise<DnsAnswer[]>

export interface HostResolverOptions {
  clock?: Clock
  logger?: Logger
  query?: DnsQuery
  /** text of a file, for /etc/hosts and /etc/resolv.conf */
  readText?: (path: string) => string
}

/** minimum time to cache an answer, so that a TTL of 0 causes no storm */
const MIN_TTL_MS = 30_000
const MAX_TTL_MS = 3_600_000
/** retry delay after a DNS failure */
const RETRY_MS = 30_000
/** /etc/hosts may be edited while we run */
const LOCAL_MS = 60_000

/** A new resolver for each query, because /etc/resolv.conf changes with the network and queries are rare. */
const systemQuery: DnsQuery = (name, family) => {
  const resolver = new Resolver({ timeout: 2000, tries: 2 })
  return family === 4 ? resolver.resolve4(name, { ttl: true }) : resolver.resolve6(name, { ttl: true })
}

interface CachedAddress {
  current: HostAddress
  /** on the monotonic clock */
  until: number
}

const MAX_LAST = 1024
/** The last address of each name, shared by all resolvers. */
const lastAddresses = new LruMap<string, string>(MAX_LAST)

/**
 * Whether an address in a medium's notation (`192.0.2.1:8080`, `[::1]:8080`) belongs to that host: equals the literal,
 * or the last resolved address of the name.
 */
export function isAddressOf(address: string, host: string): boolean {
  const own = lastAddresses.get(host) ?? (host.startsWith('[') ? host.slice(1, -1) : host)
  const at = address.startsWith('[') ? 1 : 0
  return address.startsWith(own, at) && address[at + own.length] === (at === 1 ? ']' : ':')
}

export class HostResolver {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #query: DnsQuery
  readonly #readText: (path: string) => string
  readonly #entries = new Map<string, CachedAddress>()
  readonly #asking = new Map<string, Promise<HostAddress>>()
  /** DNS queries, and those that failed while an older address was in use */
  readonly tally = { queries: 0, stale: 0 }

  constructor(options: HostResolverOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#logger = options.logger ?? silentLogger
    this.#query = options.query ?? systemQuery
    this.#readText = options.readText ?? (path => readFileSync(path, 'utf8'))
  }

  /** The address of a literal or of a cached name; undefined if resolve() must be called. Never waits. */
  known(host: string): HostAddress | undefined {
    const literal = literalAddress(host)
    if (literal) return literal
    const entry = this.#entries.get(host)
    return entry && this.#clock.mono() < entry.until ? entry.current : undefined
  }

  /** The address of `host`. Throws NETWORK if it cannot be resolved and never was. */
  async resolve(host: string): Promise<HostAddress> {
    const known = this.known(host)
    if (known) return known
    const asking = this.#asking.get(host) ?? this.#ask(host).finally(() => this.#asking.delete(host))
    this.#asking.set(host, asking)
    return asking
  }

  async #ask(host: string): Promise<HostAddress> {
    const before = this.#entries.get(host)?.current
    const now = this.#clock.mono()
    const local = this.#local(host)
    if (local) return this.#keep(host, local, now + LOCAL_MS)
    try {
      const { answers, ttlMs } = await this.#dns(host)
      // the answers for a name with many addresses change their order: keep the one in use while it is among them
      const chosen = answers.find(a => a.address === before?.address) ?? answers[0]!
      return this.#keep(host, chosen, this.#clock.mono() + Math.min(MAX_TTL_MS, Math.max(MIN_TTL_MS, ttlMs)))
    } catch (cause) {
      const why = errno(cause) ?? asOsError(cause).message
      if (!before)
        throw new OsError('NETWORK', `cannot resolve ${host} (${why})`, {
          cause,
          hint: 'check the name and the network, or use an IP address',
        })
      this.tally.stale++
      this.#logger.warn(`cannot resolve ${host} (${why}), keeping ${before.address}`)
      return this.#keep(host, before, this.#clock.mono() + RETRY_MS)
    }
  }

  #keep(host: string, current: HostAddress, until: number): HostAddress {
    this.#entries.set(host, { current, until })
    lastAddresses.set(host, current.address)
    return current
  }

  async #dns(host: string): Promise<{ answers: HostAddress[]; ttlMs: number }> {
    let failure: unknown = new OsError('NETWORK', 'no answer')
    for (const name of this.#candidates(host)) {
      const questions = ([4, 6] as const).map(async family => {
        this.tally.queries++
        const found = (await this.#query(name, family)).filter(a => isIP(a.address) === family)
        if (found.length === 0) throw new OsError('NETWORK', 'no address')
        return {
          answers: found.map(({ address }) => ({ address, family })),
          ttlMs: Math.min(...found.map(a => a.ttl)) * 1000,
        }
      })
      // both are queried in parallel; the second answer is used, and awaited, only if the first one failed
      questions[1]!.catch(() => undefined) // its failure is ignored if the first is enough
      try {
        return await questions[0]!
      } catch (error) {
        failure = error
      }
      try {
        return await questions[1]!
      } catch {
        // the reason of the first family is reported
      }
    }
    throw failure
  }

  /** A name without a dot is first tried in the search domains of resolv.conf, like in the C library. */
  #candidates(host: string): string[] {
    if (host.endsWith('.')) return [host.slice(0, -1)]
    if (host.includes('.')) return [host]
    const line = /^\s*(?:search|domain)\s+(.+)$/m.exec(this.#text('/etc/resolv.conf'))?.[1] ?? ''
    const domains = line.split(/\s+/).filter(domain => domain !== '' && domain !== '.')
    return [...domains.slice(0, 3).map(domain => `${host}.${domain}`), host]
  }

  #local(host: string): HostAddress | undefined {
    const name = host.toLowerCase().replace(/\.$/, '')
    const found: HostAddress[] = []
    for (const line of this.#text('/etc/hosts').split('\n')) {
      const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/)
      const literal = names.some(n => n.toLowerCase() === name) ? literalAddress(address) : undefined
      if (literal) found.push(literal)
    }
    const inHosts = found.find(a => a.family === 4) ?? found[0]
    if (inHosts) return inHosts
    return name === 'localhost' || name.endsWith('.localhost') ? { address: '127.0.0.1', family: 4 } : undefined
  }

  /** A system file that cannot be read counts as empty: DNS answers then. */
  #text(path: string): string {
    return orElse('', () => this.#readText(path))
  }
}

/** `192.0.2.1`, `::1`, `[::1]` or `fe80::1%eth0` as an address; anything else undefined. */
export function literalAddress(host: string): HostAddress | undefined {
  const address = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
  const family = isIP(address)
  return family === 0 ? undefined : { address, family: family === 4 ? 4 : 6 }
}

/** `192.0.2.1:8080` or `[2001:db8::1]:8080`. */
export const hostPort = (address: string, port: number): string =>
  address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
