// The program's command line in this process, for a machine with a running gateway: the words take the path of a CLI process,
// over the control socket to the process of the built file, and only the start of another process is saved.
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

/** The result of `machine.run`, from the running gateway; a command that would run locally has no answer. */
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

/** The result of `machine.json`, from the running gateway. */
// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command prints
export async function answerOf(machine: Machine, ...args: string[]): Promise<any> {
  const ran = await askGateway(machine, ...args, '--json')
  if (ran.stdout.trim() === '') throw new Error(`${args.join(' ')} printed nothing; stderr: ${ran.stderr}`)
  return JSON.parse(ran.stdout)
}

/** The result of `machine.logFacts`, from the running gateway. */
export async function factsOf(machine: Machine): Promise<LoggedFact[]> {
  const { code, stdout, stderr } = await askGateway(machine, 'log', 'export', '--from', '1')
  if (code !== 0) throw new Error(`log export: ${stderr}`)
  return stdout
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as LoggedFact)
}
