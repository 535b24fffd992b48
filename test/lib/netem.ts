// Bad networks, simulated by the kernel, for tests inside the rig and in separate networks: a network namespace is another
// machine, a veth pair the cable to it. The settings of a cable apply to every packet of every protocol. They use netem and
// tbf; if a kernel has no netem, nftables drops packets on arrival, and a delay is an error of `tc`.
import { spawnSync } from 'node:child_process'
import { tool } from './rig'

export interface Weather {
  /** percent of the packets */
  loss?: number
  duplicate?: number
  /** percent that are sent immediately, before delayed ones: needs `delayMs` */
  reorder?: number
  delayMs?: number
  /** variation of the delay in both directions; packets overtake each other */
  jitterMs?: number
  /** bits per second, with a queue of half a second; excess packets are dropped */
  rate?: number
}

/** 'up': from the other machine to this one */
export type Way = 'up' | 'down'

export interface Carried {
  /** packets sent into the cable */
  packets: number
  bytes: number
  dropped: number
}

/** The arguments of `tc` for a netem discipline; empty if none is needed. */
function netemWords({ loss, duplicate, reorder, delayMs, jitterMs }: Weather): string[] {
  const words: string[] = []
  if (delayMs !== undefined) words.push('delay', `${delayMs}ms`, ...(jitterMs ? [`${jitterMs}ms`] : []))
  if (loss) words.push('loss', `${loss}%`)
  if (duplicate) words.push('duplicate', `${duplicate}%`)
  if (reorder) words.push('reorder', `${reorder}%`)
  return words
}

/** Another machine with its own addresses, ports and routes. It shares files, file sockets and processes with the rig. */
export class Namespace {
  /** prefix of a command that should run there */
  readonly prefix: readonly [string, ...string[]]
  #cables = 0
  static #count = 0
  readonly number = Namespace.#count++

  constructor(readonly name: string) {
    tool('ip', 'netns', 'add', name)
    this.prefix = ['ip', 'netns', 'exec', name]
    this.run('ip', 'link', 'set', 'lo', 'up')
  }

  run(...command: [string, ...string[]]): string {
    return tool(...this.prefix, ...command)
  }

  /** Another cable between this machine and that one. */
  cable(): Cable {
    return new Cable(this, this.#cables++)
  }
}

export class Cable {
  /** address of this machine on the cable */
  readonly near: string
  /** address of the other machine */
  readonly far: string
  readonly #device: string
  /** true: netem drops packets; false: nftables */
  readonly #netem: boolean

  constructor(
    readonly namespace: Namespace,
    n: number,
  ) {
    const net = `10.${77 + namespace.number}.${n}`
    this.near = `${net}.1`
    this.far = `${net}.2`
    const device = (this.#device = `${namespace.name}${n}`)
    tool('ip', 'link', 'add', device, 'type', 'veth', 'peer', 'name', device, 'netns', namespace.name)
    tool('ip', 'addr', 'add', `${this.near}/24`, 'dev', device)
    namespace.run('ip', 'addr', 'add', `${this.far}/24`, 'dev', device)
    this.plug()
    namespace.run('ip', 'link', 'set', device, 'up')
    this.#netem = spawnSync('tc', ['qdisc', 'add', 'dev', device, 'root', 'netem']).status === 0
    this.#clear('down')
  }

  /** Sets the cable's properties; only for one direction with `way`. */
  weather(weather: Weather, way?: Way): void {
    for (const one of way ? [way] : (['up', 'down'] as const)) {
      const { rate, loss, ...others } = weather
      const words = netemWords(this.#netem ? weather : others)
      if (!this.#netem) this.#lose(one, loss ?? 0)
      const tbf = rate ? ['tbf', 'rate', `${rate}bit`, 'burst', '3000', 'latency', '500ms'] : []
      this.#clear(one)
      if (words.length > 0) this.#qdisc(one, 'add', 'root', 'handle', '1:', 'netem', 'limit', '10000', ...words)
      if (rate) this.#qdisc(one, 'add', ...(words.length > 0 ? ['parent', '1:1', 'handle', '2:'] : ['root']), ...tbf)
    }
  }

  /** Resets the cable: no loss, no delay. */
  fair(): void {
    this.weather({})
  }

  /** Drops everything silently, like a router that is off. `fair()` or `weather()` ends it. */
  silence(way?: Way): void {
    this.weather({ loss: 100 }, way)
  }

  /** Unplugs the cable: carrier and route disappear at both ends. */
  unplug(): void {
    tool('ip', 'link', 'set', this.#device, 'down')
  }

  plug(): void {
    tool('ip', 'link', 'set', this.#device, 'up')
  }

  /** The traffic since the last change of the weather; needs weather. */
  carried(way: Way): Carried {
    if (!this.#netem) {
      const rules = this.#nft(way, 'list', 'table', 'netdev', this.#device)
      const [all, lost] = [...rules.matchAll(/packets (\d+) bytes (\d+)/g)].map(found => found.slice(1).map(Number))
      return { packets: all![0]!, bytes: all![1]!, dropped: lost![0]! }
    }
    const text = this.#tc(way, 'qdisc', 'show', 'dev', this.#device, 'root')
    const numbers = /Sent (\d+) bytes (\d+) pkts? \(dropped (\d+)/.exec(text)
    if (!numbers) throw new Error(`no counters of ${this.#device}: ${text}`)
    const [bytes, sent, dropped] = numbers.slice(1).map(Number) as [number, number, number]
    return { bytes, packets: sent + dropped, dropped }
  }

  /** Drops arriving packets randomly, at that end of the cable. */
  #lose(way: Way, percent: number): void {
    const table = `netdev ${this.#device}`
    const hook = `filter hook ingress device "${this.#device}" priority 0`
    const chance = percent < 100 ? `numgen random mod 100 < ${percent} ` : ''
    const chain = `chain arriving { type ${hook}; counter; ${chance}counter drop; }`
    this.#nft(way, `add table ${table}; delete table ${table}; table ${table} { ${percent > 0 ? chain : ''}; };`)
  }

  /** 'up' arrives at this machine. */
  #nft(way: Way, ...words: [string, ...string[]]): string {
    return way === 'up' ? tool('nft', ...words) : this.namespace.run('nft', ...words)
  }

  #clear(way: Way): void {
    if (!/noqueue/.test(this.#tc(way, 'qdisc', 'show', 'dev', this.#device, 'root'))) this.#qdisc(way, 'del', 'root')
  }

  #qdisc(way: Way, verb: string, ...words: string[]): void {
    this.#tc(way, 'qdisc', verb, 'dev', this.#device, ...words)
  }

  #tc(way: Way, ...words: string[]): string {
    return way === 'down' ? tool('tc', '-s', ...words) : this.namespace.run('tc', '-s', ...words)
  }
}
