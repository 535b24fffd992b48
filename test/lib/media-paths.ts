// Shared by the tests of uplinks over bad networks: one upstream on this machine that receives over every medium, and
// gateways on another machine, each with its own medium. Real processes of the built file, real kernel networks.
import { join } from 'node:path'
import { realFiles } from '../../src/lib/files'
import { exportFacts } from '../../src/log'
import { makeCerts } from './certs'
import { askControl } from './control'
import { databaseFacts, keyOf, type LoggedFact, Machine, until } from './gateway'
import type { Cable } from './netem'
import { assertSame } from './same'
import { type Server, startMosquitto } from './servers'

/** RAM of the rig: nothing is written on this machine */
const DIR = '/run/media-paths'
export const certsDir = join(DIR, 'certs')
/** path of a file created by makeCerts(certsDir) */
export const certs = (name: string): string => join(certsDir, name)

/** Media of an uplink, with the additional settings of receiver and uplink. */
const MEDIA = {
  UDP: { receiver: { port: 9001 }, uplink: { port: 9001 } },
  TCP: { receiver: { port: 9002 }, uplink: { port: 9002 } },
  MQTT: { receiver: { host: '127.0.0.1', port: 1883 }, uplink: { port: 1883 } },
  QUIC: {
    receiver: { port: 9003, tls: { cert: certs('server.crt'), key: certs('server.key') } },
    uplink: { port: 9003, tls: { ca: certs('ca.crt'), servername: 'localhost' } },
  },
}
export type Medium = keyof typeof MEDIA
export const allMedia = Object.keys(MEDIA) as Medium[]

const flags = {
  application_status: { mqtt: true },
  transport_status: { udp: true, tcp: true, quic: true },
}
const WEB = 8001

/**
 * QUIC needs a newer Node than the rig's kernel supports: there a Node 24 process that starts another one crashes the kernel.
 */
const NODE = process.env.OS_NODE_QUIC_NODE ?? process.execPath

/** The `gateway.uplinks` entry for a medium. */
export const uplinkOver = (
  medium: Medium,
  cable: Cable,
  more: Record<string, unknown> = {},
): Record<string, unknown> => ({
  name: medium.toLowerCase(),
  medium,
  host: cable.near,
  ...MEDIA[medium].uplink,
  full_every: 20,
  full_interval_seconds: 2,
  ...more,
})

/** A gateway on the other machine: groups of real readings, about `perSecond` facts in total. */
export class Gateway extends Machine {
  readonly id: string

  constructor(id: string, cable: Cable, uplinks: readonly unknown[], { perSecond = 10, gateway = {} } = {}) {
    const types = ['cpu', 'memory', 'uptime', 'network']
    // a group is read at most ten times a second
    const groups = Math.max(types.length, Math.ceil(perSecond / 8))
    const sources = Array.from({ length: groups }, (_, k) => ({
      name: `group${k}`,
      type: types[k % types.length],
      interval_ms: Math.round((groups * 1000) / perSecond) + 7 * (k % types.length),
    }))
    const config = {
      device_id: id,
      gateway: { sources, uplinks, log: { commit_interval_ms: 200 }, ...gateway },
      RESOURCES: flags,
    }
    super(join(DIR, id), 'run', config, cable.namespace.prefix)
    this.id = id
    this.node = NODE
  }

  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command gives
  status(): Promise<any> {
    return askControl(this.dataDir, 'status')
  }
}

/** The upstream, together with a broker. */
export class Upstream extends Machine {
  broker: Server | undefined

  /** `more`: additional keys of its receivers */
  constructor(
    readonly media: readonly Medium[],
    more: Record<string, unknown> = {},
  ) {
    const receivers = media.map(medium => ({ name: `from-${medium}`, medium, ...MEDIA[medium].receiver, ...more }))
    // creating a token would need another start of the program
    super(join(DIR, 'up'), 'serve', { web_user: { auth_enabled: false }, gateway: { receivers }, RESOURCES: flags })
    this.node = NODE
  }

  async open(): Promise<void> {
    if (this.media.includes('QUIC')) makeCerts(certsDir)
    if (this.media.includes('MQTT')) this.broker = await startMosquitto({ port: 1883, host: '0.0.0.0' })
    await this.start(['--web-port', String(WEB)], WEB)
  }

  async close(): Promise<void> {
    await this.stop('SIGKILL')
    await this.broker?.stop()
  }

  /** of one device */
  database(device: string): Promise<LoggedFact[]> {
    return databaseFacts(WEB, '', `&device_id=${device}`)
  }
}

/** The facts of a gateway's or upstream's log that are on disk. */
export const logged = (machine: Machine): LoggedFact[] =>
  [...exportFacts(join(machine.dataDir, 'log'), 1, realFiles)] as LoggedFact[]

/**
 * Waits until everything that `gateway` has on disk is in the upstream's log and database, each fact once and with the right
 * value, and checks that the upstream has nothing that the gateway did not log. Returns the number of facts.
 */
export async function assertDelivered(upstream: Upstream, gateway: Gateway): Promise<number> {
  const sent = logged(gateway)
  const tell = async (error: Error): Promise<never> => {
    const { uplinks, links, forwarding } = await gateway.status().catch(() => ({}))
    const { received, links: receivers } = await askControl(upstream.dataDir, 'status').catch(() => ({}))
    const { ended } = gateway
    const state = JSON.stringify({ ended, uplinks, links, forwarding, received, receivers }, null, 1)
    const said = [gateway, upstream].map(machine => machine.output.slice(-3000)).join('\nupstream:\n')
    throw new Error(`${gateway.id}: ${error.message}\n${state}\n${said}`)
  }
  const { log } = await gateway.status().catch(tell)
  await until(
    `${gateway.id} delivers ${log.last_seq} records`,
    async () => (await gateway.status()).forwarding.cursor >= log.last_seq,
  ).catch(tell)
  const keys = new Set(sent.map(keyOf))
  const ours = (facts: LoggedFact[]): LoggedFact[] => facts.filter(fact => keys.has(keyOf(fact)))
  // an acknowledgement of the broker does not prove arrival at the upstream
  const all = (): LoggedFact[] | null => {
    const facts = logged(upstream)
    return ours(facts).length >= sent.length ? facts : null
  }
  const got = await until('the upstream has them', all).catch(tell)
  try {
    assertSame(sent, ours(got))
  } catch (error) {
    await tell(error as Error)
  }
  const strange = (): LoggedFact[] => {
    const all = new Set(logged(gateway).map(keyOf))
    return got.filter(fact => fact.id === gateway.id && !all.has(keyOf(fact)))
  }
  await until('the gateway knows all that the upstream has', () => strange().length === 0)
  const rows = await until('the database has them', async () => {
    const facts = ours(await upstream.database(gateway.id))
    return facts.length >= sent.length ? facts : null
  })
  assertSame(sent, rows)
  return sent.length
}
