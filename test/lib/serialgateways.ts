// Real gateways whose serial ports are in the test: what they send each other over UART or RS485 must be in both logs.
import { join } from 'node:path'
import { realFiles } from '../../src/lib/files'
import { exportFacts } from '../../src/log'
import { askControl } from './control'
import { freePort, keyOf, type LoggedFact, Machine, removeDir, tempDir, until } from './gateway'
import { type Plug, Ptys } from './ptys'
import { assertSame } from './same'

/** readings of this machine, two groups every `interval_ms` */
export const readings = (interval_ms = 100): unknown[] =>
  ['uptime', 'memory'].map((type, k) => ({ name: type, type, interval_ms: interval_ms + 7 * k }))

export class SerialGateways {
  readonly dir = tempDir()
  readonly #ptys = new Ptys()
  readonly #machines: Machine[] = []

  /** A serial port of that name, plugged in. */
  port(name: string): Promise<Plug> {
    return this.#ptys.port(join(this.dir, name))
  }

  /** A running gateway; `gateway` and `physical_config` as in Config.json. */
  async machine(name: string, verb: 'run' | 'serve', gateway: object, physical_config = {}): Promise<Machine> {
    const made = new Machine(join(this.dir, name), verb, {
      device_id: name,
      gateway: { log: { commit_interval_ms: 100 }, ...gateway },
      RESOURCES: { physical_status: { uart: true, rs485: true }, physical_config },
    })
    this.#machines.push(made)
    const web = String(await freePort())
    await made.start(verb === 'serve' ? ['--host', '127.0.0.1', '--port', '0', '--web-port', web] : ['--port', web])
    return made
  }

  async close(): Promise<void> {
    for (const machine of this.#machines) await machine.stop('SIGKILL')
    this.#ptys.close()
    removeDir(this.dir)
  }
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the status holds
export const status = (of: Machine): Promise<any> => askControl(of.dataDir, 'status')

/** Waits until the upstream has acknowledged more than `count` packets of `from`; fails with the status of both ends. */
export async function acknowledged(from: Machine, count: number, to: Machine, ms = 180_000): Promise<void> {
  await until('acknowledged', async () => (await status(from)).uplinks.up.acked > count, ms).catch(async error => {
    const links = JSON.stringify([(await status(from)).links, (await status(to)).links])
    throw new Error(`${error.message}\n${links}\n${from.output.slice(-1500)}\n${to.output.slice(-1500)}`)
  })
}

/**
 * Stops `from` like a service manager, and checks that every fact of its log is in the log of `to`, once, with the same
 * values. The next start sends what the stop could not send in time (X29). Returns the number of facts.
 */
export async function delivered(from: Machine, to: Machine): Promise<number> {
  await until('some are committed', async () => (await status(from)).log.committed_seq > 5)
  await from.stop()
  const sent = from.logFacts()
  const keys = new Set(sent.map(keyOf))
  // the files are read here: a command would block the wires, which are in this process
  const facts = (): LoggedFact[] => [...exportFacts(join(to.dataDir, 'log'), 1, realFiles)] as LoggedFact[]
  const there = (): LoggedFact[] => facts().filter(fact => keys.has(keyOf(fact)))
  const all = (ms?: number): Promise<boolean> => until('all are present', () => there().length >= keys.size, ms)
  await all(3000).catch(async () => {
    await from.start(['--port', String(await freePort())])
    await all().catch(() => undefined) // reported below, fact by fact
    await from.stop()
  })
  assertSame(sent, there())
  return sent.length
}
