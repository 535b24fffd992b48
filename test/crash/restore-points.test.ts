// The power is cut at every write, sync, rename and remove of a restore; then the restore is completed, as the next command does. The
// state is the old one or the new one, complete, never a mixture. The same with a real process that is killed at each of its steps; the
// file is also that process when the variable is set.
// Long: every step
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { backupTo, finishRestore, restoreBackup } from '../../src/backup'
import { filesIn } from '../../src/backup/contents'
import { type Files, realFiles } from '../../src/lib/files'
import { rounds } from '../lib/random'
import { MemFiles, PowerCut, systemError } from '../unit/log/memfiles'

const OLD = {
  'Config.json': '{"device_id":"old"}',
  'data/log/0000000000000001.seg': 'old log',
  'data/token.json': 'old',
  'data/only-old': 'x',
}
const NEW = {
  'Config.json': '{"device_id":"new"}',
  'data/log/0000000000000001.seg': 'new log'.repeat(99),
  'data/log/0000000000000002.seg': 'n2',
  'data/only-new': 'y',
}
const MARK = { 'data/restored.json': JSON.stringify({ restored_at: 2, created: 1 }) }
/** a process takes most of a second */
const STRIDE = rounds(9, 1)
const CHILD = 'OS_NODE_RESTORE_DIR'

/** With folders: a log has none. */
class Tree extends MemFiles {
  override list(path: string): string[] {
    const inside = [...this.files.keys()].filter(name => name.startsWith(`${path}/`))
    return [...new Set(inside.map(name => name.slice(path.length + 1).split('/')[0]!))]
  }
  override size(path: string): number {
    if (!this.files.has(path) && this.exists(path)) throw systemError('EISDIR')
    return super.size(path)
  }
}

const placeOf = (dir: string) => ({ dataDir: join(dir, 'data'), configPath: join(dir, 'Config.json'), now: 2 })

function put(dir: string, state: Record<string, string>): void {
  for (const [path, text] of Object.entries(state)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true })
    writeFileSync(join(dir, path), text)
  }
}

async function makeBackup(dir: string): Promise<string> {
  const file = join(dir, 'x.backup')
  put(join(dir, 'from'), NEW)
  const config = { whole: NEW['Config.json'], bare: NEW['Config.json'], leftOut: [] }
  const about = { version: '1', created: 1, device_id: 'new', assigned_id: 1 }
  await backupTo(file, false, {
    dataDir: join(dir, 'from/data'),
    config,
    place: { path: join(dir, 'Config.json'), baseDir: dir, settings: {} },
    about,
  })
  return file
}

/** Fails unless it is one of the two, complete. Returns which. */
function check(dir: string, files: Files, where: string): 'old' | 'new' {
  const found = Object.fromEntries(
    filesIn(dir, files, path => path !== 'data/restore' && !path.endsWith('.tmp')).map(path => [
      path,
      files.read(join(dir, path)).toString(),
    ]),
  )
  const which = found['Config.json'] === OLD['Config.json'] ? 'old' : 'new'
  assert.deepEqual(found, which === 'old' ? OLD : { ...NEW, ...MARK }, where)
  return which
}

test('after a power cut at every step of a restore the next command finds the old state or the new one', async t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-restore-'))
  t.after(() => rmSync(dir, { recursive: true }))
  const backup = readFileSync(await makeBackup(dir))
  const first = (): Tree => {
    const files = new Tree()
    for (const [path, text] of [
      ['/x.backup', backup],
      ...Object.entries(OLD).map(([p, s]) => [`/gw/${p}`, Buffer.from(s)]),
    ] as const) {
      const node = { data: Buffer.from(text), durable: Buffer.from(text) }
      files.files.set(path as string, node)
      files.durableNames.set(path as string, node)
    }
    return files
  }
  const seen = { old: 0, new: 0 }
  let point = 0
  for (let done = false; !done; point++)
    for (const [kept, zeros, tear, survives] of [
      [0, false, 0],
      [1, false, 0.5],
      [0.5, true, 0.3],
      [0, false, 0, (name: string) => name.includes('/restore/')],
      [1, false, 0, (name: string) => !name.includes('/restore/')],
    ] as const) {
      const files = first()
      files.tear = tear
      let cut = false
      files.gate = operation => {
        if (cut || (operation !== 'read' && operation !== 'close' && files.operations > point)) {
          cut = true
          throw new PowerCut(`at ${point}`)
        }
      }
      try {
        restoreBackup({ file: '/x.backup', ...placeOf('/gw'), files })
      } catch (error) {
        if (!cut) throw error
      }
      done = !cut
      const left = files.afterPowerCut(kept, zeros, survives)
      const where = `operation ${point}, kept ${kept} ${survives ?? ''}`
      // cut once more while it is being completed
      let again = 0
      left.gate = operation => {
        if (operation !== 'read' && operation !== 'close' && ++again === 1 + (point % 7)) throw new PowerCut('again')
      }
      try {
        finishRestore('/gw/data', left)
      } catch {
        // the next command continues
      }
      const later = left.afterPowerCut(kept, zeros, survives)
      finishRestore('/gw/data', later)
      seen[check('/gw', later, where)]++
      if (done) assert.equal(check('/gw', later, where), 'new')
    }
  assert.ok(point > 40 && seen.old > 20 && seen.new > 20, JSON.stringify({ point, seen }))
})

/** Kills this process at operation `at`. */
function killedAt(at: number): Files {
  let n = 0
  const changing = ['mkdir', 'open', 'write', 'syncNow', 'truncate', 'rename', 'remove', 'syncDir']
  return new Proxy(realFiles, {
    get: (files, name: keyof Files) => {
      if (!changing.includes(name)) return files[name]
      return (...args: never[]) => {
        if (n++ === at) process.kill(process.pid, 'SIGKILL')
        return (files[name] as (...all: never[]) => unknown)(...args)
      }
    },
  })
}

if (process.env[CHILD]) {
  const dir = process.env[CHILD]
  restoreBackup({
    file: join(dir, 'x.backup'),
    ...placeOf(join(dir, 'gw')),
    files: killedAt(Number(process.env.OS_NODE_RESTORE_STEP)),
  })
  process.exit(0)
} else
  test('after kill -9 at the steps of a restore the next command finds the old state or the new one', async t => {
    const dir = mkdtempSync(join(tmpdir(), 'os-node-restore-'))
    t.after(() => rmSync(dir, { recursive: true }))
    await makeBackup(dir)
    const seen = { old: 0, new: 0 }
    for (let step = 0; ; step += STRIDE) {
      rmSync(join(dir, 'gw'), { recursive: true, force: true })
      put(join(dir, 'gw'), OLD)
      const env = { ...process.env, [CHILD]: dir, OS_NODE_RESTORE_STEP: String(step), NODE_TEST_CONTEXT: undefined }
      const { status, signal, stderr } = spawnSync(process.execPath, [__filename], { env, encoding: 'utf8' })
      if (signal !== 'SIGKILL') {
        assert.equal(status, 0, stderr)
        break
      }
      finishRestore(join(dir, 'gw/data'))
      seen[check(join(dir, 'gw'), realFiles, `step ${step}`)]++
    }
    assert.ok(seen.old > 2 && seen.new > 2, JSON.stringify(seen))
  })
