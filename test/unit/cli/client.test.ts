// What the command line does around a command: rows as text at a terminal, the end by Ctrl-C, a broken configuration, a
// gateway that hangs, a temporary data directory that is removed.
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { type CliDeps, runCli } from '../../../src/cli'
import { findGateway } from '../../../src/cli/client'
import { runRequest } from '../../../src/commands'
import { ConfigStore } from '../../../src/config'
import { startControl } from '../../../src/gateway/control'
import { acquireLock } from '../../../src/gateway/lock'
import { asOsError } from '../../../src/lib/errors'
import { makeFifo } from '../../lib/fifo'
import { fake } from '../commands/fake'

const root = mkdtempSync(join(tmpdir(), 'os-node-ways-'))
after(() => rmSync(root, { recursive: true, force: true }))
let count = 0

class Sink extends EventEmitter {
  text = ''
  constructor(readonly isTTY = false) {
    super()
  }
  write(text: string): boolean {
    this.text += text
    this.emit('wrote')
    return true
  }
}

function rig(text: string, isTTY = false) {
  const cwd = join(root, String(count++))
  mkdirSync(cwd)
  writeFileSync(join(cwd, 'Config.json'), text)
  const [out, err, stop] = [new Sink(isTTY), new Sink(), new AbortController()]
  const configs: ConfigStore[] = []
  const deps: CliDeps = {
    version: '9.9.9',
    env: {},
    cwd,
    stdout: out,
    stderr: err,
    signal: stop.signal,
    waitMs: 100,
    context: async ({ config, print, signal, logger }) => {
      configs.push(config)
      return fake(config, { print, signal, logger, safeMode: async () => ({ active: false, crashes: 0 }) }).context
    },
  }
  return { cwd, out, err, stop, configs, cli: (line: string) => runCli(line.split(' '), deps) }
}

test('rows are text, with colours at a terminal, and JSON lines with --json only', async () => {
  const line = 'watch --module config --duration 0.1 --interval 60'
  const piped = rig('{}')
  assert.equal(await piped.cli(line), 0)
  assert.match(piped.out.text, /config\n {2}assigned_id = /)
  const terminal = rig('{}', true)
  assert.equal(await terminal.cli(line), 0)
  assert.match(terminal.out.text, /config\x1b\[0m\n {2}assigned_id = /)
  const json = rig('{}', true)
  await json.cli(`${line} --json`)
  assert.equal(JSON.parse(json.out.text.split('\n')[0]!).changed, null)
  assert.doesNotMatch(json.out.text, /\x1b/)
})

test('Ctrl-C ends an endless command with exit 0, locally and in a gateway', async () => {
  for (const inGateway of [false, true]) {
    const { cwd, out, stop, cli } = rig('{}')
    const lock = inGateway ? await acquireLock(join(cwd, 'data'), 'run') : undefined
    const { context } = fake(ConfigStore.load({ cwd, env: {}, keep: false }), { inGateway: true })
    const server =
      lock &&
      (await startControl({
        dataDir: join(cwd, 'data'),
        run: (request, watch) => runRequest({ ...context, ...watch }, request),
      }))
    if (server) lock?.setSocket(server.path)
    out.once('wrote', () => stop.abort())
    assert.equal(await cli('watch --module pipeline --interval 60'), 0)
    await server?.close()
    lock?.release()
  }
})

test('doctor and repair-config run with a broken configuration and no last good copy', async () => {
  const { cwd, out, err, cli } = rig('{ "device_id": 5, "assigned_id": 7 }')
  assert.equal(await cli('status'), 3)
  assert.match(err.text, /device_id must be a text, not 5/)
  out.text = ''
  assert.equal(await cli('doctor --json'), 1)
  assert.match(JSON.parse(out.text).checks.find((check: { name: string }) => check.name === 'config').text, /device_id/)
  out.text = ''
  assert.equal(await cli('repair-config --json'), 0)
  const { ok, repaired, backup } = JSON.parse(out.text)
  assert.deepEqual(
    [ok, repaired, backup],
    [true, [{ key: 'device_id', old: 5, new: '' }], join(cwd, 'Config.json.bak')],
  )
  assert.match(err.text, /device_id: 5 → ""/)
  assert.deepEqual(JSON.parse(readFileSync(join(cwd, 'Config.json'), 'utf8')), { device_id: '', assigned_id: 7 })
  out.text = ''
  assert.equal(await cli('repair-config'), 0)
  assert.equal(out.text, 'nothing had to be repaired\n')
  assert.equal(await cli('status'), 0)
})

test('when a gateway does not answer, the doctor reports it and other commands are LOCKED', async () => {
  const { cwd, out, err, cli } = rig('{}')
  const lock = await acquireLock(join(cwd, 'data'), 'run')
  try {
    assert.equal(await cli('status'), 4)
    out.text = ''
    assert.equal(await cli('doctor --json'), 1)
    const gateway = JSON.parse(out.text).checks.find((check: { name: string }) => check.name === 'gateway')
    assert.equal(gateway.state, 'failed')
    assert.match(gateway.text, new RegExp(`process ${process.pid} .*does not answer`))
    assert.match(err.text, /does not answer/)
  } finally {
    lock.release()
  }
})

/** A Node whose libuv may use io_uring, as Debian's, does not change its user. */
function cannotChangeUser(): string | false {
  if (process.getuid?.() !== 0) return false
  try {
    process.seteuid?.(0)
    return false
  } catch (error) {
    return String(error)
  }
}

test('a user who may not read the lock gets that message, and not that no gateway runs', {
  skip: cannotChangeUser(),
}, async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'os-node-rights-'))
  writeFileSync(join(cwd, 'os-node.lock'), '{}')
  assert.deepEqual(await findGateway(cwd), {})
  chmodSync(cwd, 0)
  const root = process.getuid?.() === 0
  if (root) process.seteuid?.(65_534)
  try {
    await assert.rejects(findGateway(cwd), { code: 'FORBIDDEN', hint: /sudo/ })
    const thrown = (() => {
      try {
        return readFileSync(join(cwd, 'os-node.lock'))
      } catch (error) {
        return error
      }
    })()
    const { code, hint } = asOsError(thrown)
    assert.deepEqual([code, /sudo/.test(hint)], ['DATA_DIR', true])
  } finally {
    if (root) process.seteuid?.(0)
    chmodSync(cwd, 0o700)
    rmSync(cwd, { recursive: true })
  }
})

test('a FIFO in place of the lock file does not block: it counts as no running gateway', async t => {
  const cwd = join(root, String(count++))
  mkdirSync(cwd)
  const fifo = makeFifo(join(cwd, 'os-node.lock'))
  t.after(fifo.end)
  assert.deepEqual(await findGateway(cwd), {})
  assert.equal(fifo.waitedFor(), false)
})

test('a command with a temporary data directory runs with it as its configuration, and removes it at the end', async () => {
  const { cwd, configs, out, cli } = rig('{ "device_id": "mine" }')
  assert.equal(await cli('demo --web-port 0 --json'), 0)
  assert.equal(configs[0]?.get('device_id'), 'demo')
  assert.equal(JSON.parse(out.text).role, 'demo')
  assert.ok(!existsSync(dirname(configs[0]!.path)))
  assert.ok(!existsSync(join(cwd, 'data')))
})
