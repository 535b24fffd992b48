// The command line in a folder of its own, with its output as text.
import { EventEmitter } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { type CliDeps, type LocalSetup, runCli } from '../../../src/cli'
import type { CommandContext } from '../../../src/commands'
import { fake } from '../commands/fake'

const root = mkdtempSync(join(tmpdir(), 'os-node-cli-'))
after(() => rmSync(root, { recursive: true, force: true }))
let count = 0

class Sink extends EventEmitter {
  text = ''
  isTTY = false
  slow = false
  write(text: string): boolean {
    this.text += text
    if (this.slow) setImmediate(() => this.emit('drain'))
    return !this.slow
  }
}

export interface Rig {
  cwd: string
  deps: CliDeps
  out: Sink
  err: Sink
  setups: LocalSetup[]
  cli(line: string | string[], more?: Partial<CliDeps>): Promise<number>
}

export function rig(text?: string, change: (context: CommandContext) => CommandContext = context => context): Rig {
  const cwd = join(root, String(count++))
  mkdirSync(cwd)
  if (text !== undefined) writeFileSync(join(cwd, 'Config.json'), text)
  const [out, err] = [new Sink(), new Sink()]
  const setups: LocalSetup[] = []
  const deps: CliDeps = {
    version: '9.9.9',
    env: {},
    cwd,
    stdout: out,
    stderr: err,
    signal: new AbortController().signal,
    waitMs: 150,
    context: async setup => {
      setups.push(setup)
      return change(fake(setup.config, { print: setup.print }).context)
    },
  }
  const cli = (line: string | string[], more = {}): Promise<number> => {
    out.text = ''
    err.text = ''
    return runCli(typeof line === 'string' ? line.split(' ') : line, { ...deps, ...more })
  }
  return { cwd, deps, out, err, setups, cli }
}
