// The terminal UI through a real ssh session: the screen, every key, the size of the terminal, little traffic on the line, and
// no process left on the gateway when the line is cut.
// Needs: sshd
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freePort, Machine, removeDir, script, tempDir, until } from '../../lib/gateway'
import { startSshd } from '../../lib/servers'
import { Tty } from '../../lib/tty'

const dir = tempDir()
const open: Tty[] = []
let ssh: Awaited<ReturnType<typeof startSshd>>
let machine: Machine

before(async () => {
  ssh = await startSshd()
  machine = new Machine(join(dir, 'gw'), 'run', {
    device_id: 'pi-mast',
    gateway: { uplinks: [], sources: [{ name: 'cpu', type: 'cpu', interval_ms: 500 }] },
    RESOURCES: { service_plugins: { env_guard: { auto_start: false } } },
  })
  await machine.start(['--port', String(await freePort())])
})
after(async () => {
  for (const tty of open) tty.close()
  await machine?.stop()
  await ssh?.server.stop()
  removeDir(dir)
})

function tui(...args: string[]): Tty {
  const words = [process.execPath, script, 'tui', ...args, '--config', machine.config, '--data-dir', machine.dataDir]
  const tty = new Tty(ssh.on(words.map(word => `'${word}'`).join(' ')), { cwd: machine.dir })
  open.push(tty)
  return tty
}

test('every key works, sizes are followed, and the terminal is restored', async () => {
  const tty = tui('--interval', '0.5')
  await tty.shows(/pi-mast .*via gateway[\s\S]*assigned_id/)
  assert.ok(tty.screen.lines().every(line => line.length <= 80))
  assert.match(tty.screen.lines()[23]!, /m providers .* q quit/)
  tty.type('m')
  await tty.shows(/6 providers/)
  tty.type('s')
  await tty.shows('search:')
  tty.type('pipe\r')
  await tty.shows(/Pipeline[\s\S]*cpu_busy/)
  tty.type('j')
  await tty.shows('"unit_dialect": "ucum"')
  tty.type('ja')
  await tty.shows('all 6 sections')
  tty.type('2')
  await tty.shows('(node_core:config)')
  tty.type('r')
  tty.resize(120, 40)
  await until('120 by 40', () => /q quit$/.test(tty.screen.lines()[39] ?? ''))
  tty.resize(60, 12)
  await until('60 by 12', () => /quit$/.test(tty.screen.lines()[11] ?? ''))
  tty.type('q')
  assert.deepEqual(await tty.end(), { code: 0, signal: 0 })
  assert.deepEqual([tty.screen.other, tty.screen.cursor, tty.screen.wraps], [false, true, true])
})

test('an unchanged screen is a few bytes on the line', async () => {
  const tty = tui('bios', '--section', 'config', '--interval', '0.2')
  await tty.shows('engine_settings')
  const { cleared, bytes, frames } = tty.screen
  await until('some more polls', () => tty.screen.frames >= frames + 3 && !tty.screen.drawing)
  assert.equal(tty.screen.cleared, cleared)
  assert.ok((tty.screen.bytes - bytes) / (tty.screen.frames - frames) < 150, `${tty.screen.bytes - bytes} bytes`)
  tty.type('q')
  assert.equal((await tty.end()).code, 0)
})

test('a cut line leaves no process running on the gateway', async () => {
  const tty = tui('--interval', '0.41')
  await tty.shows('assigned_id')
  assert.equal(running('tui', '0.41', machine.config), 1)
  tty.kill('SIGKILL')
  await tty.end()
  await until('the program on the gateway ends', () => running('tui', '0.41', machine.config) === 0)
})

/** Node processes with these words. */
function running(...words: string[]): number {
  const lines = readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(pid => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
      } catch {
        return [] // it ended meanwhile
      }
    })
  return lines.filter(line => line[0] === process.execPath && words.every(word => line.includes(word))).length
}
