// A data directory with a file of each kind, its backup, and the place of a restore.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { backupTo, restoreBackup } from '../../../src/backup'
import { filesIn } from '../../../src/backup/contents'
import { realFiles } from '../../../src/lib/files'

export const PASSPHRASE = 'a long passphrase'
export const CONFIG = { whole: '{"password":"hush"}', bare: '{}', leftOut: ['password'] }

/** One file of each kind; those under `not` must not be in the backup. */
export const STATE: Record<string, string> = {
  'log/0000000000000001.seg': 'records '.repeat(400),
  'sql/window-1': 'rows',
  'last_time.json': '{"ms":1}',
  'install-id': 'abcdef012345\n',
  'id_allocation.json': '{"allocated":{},"released":[],"next_candidate":4}\n',
  'id_allocation.json.journal': 'lines\n',
  'upstream/Config.json': '{}',
  'upstream/log/0000000000000001.seg': 'more',
}
export const NOT: Record<string, string> = {
  'os-node.lock': 'x',
  'starts.json': '{}',
  'log/chain.json': '{}',
  'log/x.damaged-1': 'x',
  'native/addon.node': 'x',
  'secure_sessions.json': '{"key":"session-key"}',
  'device_registry/spill/1.spill': 'x',
  'config.last-good.json': '{"password":"hush"}',
  'upstream/secure_sessions.json': 'session-key',
  'half.tmp': 'x',
  'os-node.127.cache': 'bytecode',
  'update-upload': 'a half-uploaded update',
  'restore/old-1/x': 'x',
}
export const SECRET: Record<string, string> = {
  'token.json': '{"hash":"token-hash"}',
  'web_tls.pem': 'private',
  'upstream/token.json': 'u',
}

export function put(dir: string, state: Record<string, string>): void {
  for (const [path, text] of Object.entries(state)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true })
    writeFileSync(join(dir, path), text)
  }
}

export const stateOf = (dir: string): Record<string, string> =>
  Object.fromEntries(filesIn(dir, realFiles).map(path => [path, readFileSync(join(dir, path), 'utf8')]))

export function world(t: TestContext) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-backup-'))
  t.after(() => rmSync(dir, { recursive: true }))
  const dataDir = join(dir, 'data')
  put(dataDir, { ...STATE, ...NOT, ...SECRET })
  const file = join(dir, 'x.backup')
  const about = { version: '1.2.3', created: 1000, device_id: 'GW1', assigned_id: 7 }
  const write = (passphrase?: string, force = false, settings = {}, config = CONFIG) => {
    const place = { path: join(dataDir, 'Config.json'), baseDir: dir, settings }
    return backupTo(file, force, { dataDir, config, place, about, passphrase })
  }
  const target = join(dir, 'new')
  put(target, { 'data/log/0000000000000009.seg': 'old', 'data/os-node.lock': 'mine', 'Config.json': '{"old":1}' })
  const restore = (passphrase?: string, from = file, checkConfig?: (text: string) => void) =>
    restoreBackup({
      file: from,
      dataDir: join(target, 'data'),
      configPath: join(target, 'Config.json'),
      passphrase,
      ...(checkConfig && { checkConfig }),
      now: 5,
    })
  return { dir, dataDir, file, write, target, restore }
}
