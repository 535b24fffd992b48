// Runs commands in this process, for a machine with a running gateway: the words are sent over the control socket, as a CLI
// process would do, but without starting a process.
import { EventEmitter } from 'node:events'
import { runCli } from '../../src/cli'
import type { LoggedFact, Machine, Ran } from './gateway'

class Sink extends EventEmitter {
  text = ''
  write(text: string): boolean {
    this.text += text
    return true
  }
}

/** As `machine.run`, answered by the running gateway; a command that would run locally has no answer. */
export async function askGateway(machine: Machine, ...args: string[]): Promise<Ran> {
  const [out, err] = [new Sink(), new Sink()]
  // words after -- belong to a plugin
  const behind = args.includes('--') ? args.indexOf('--') : args.length
  const place = ['--config', machine.config, '--data-dir', machine.dataDir]
  const code = await runCli([...args.slice(0, behind), ...place, ...args.slice(behind)], {
    version: 'test',
    env: {},
    cwd: machine.dir,
    stdout: out,
    stderr: err,
    signal: new AbortController().signal,
    context: ({ verb }) => Promise.reject(new Error(`no gateway answers ${verb.name}`)),
  })
  return { code, stdout: out.text, stderr: err.text }
}

/** As `machine.json`, answered by the running gateway. */
// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command prints
export async function answerOf(machine: Machine, ...args: string[]): Promise<any> {
  const ran = await askGateway(machine, ...args, '--json')
  if (ran.stdout.trim() === '') throw new Error(`${args.join(' ')} printed nothing; stderr: ${ran.stderr}`)
  return JSON.parse(ran.stdout)
}

/** As `machine.logFacts`, answered by the running gateway. */
export async function factsOf(machine: Machine): Promise<LoggedFact[]> {
  const { code, stdout, stderr } = await askGateway(machine, 'log', 'export', '--from', '1')
  if (code !== 0) throw new Error(`log export: ${stderr}`)
  return stdout
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as LoggedFact)
}
