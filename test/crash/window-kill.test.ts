// A real process seals windows of a real log and is killed at random moments. After each start the view counts what the log
// counts, and no packet is in two windows. The file is also the child: it runs as such when the variable is set.
// Long: more kills
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { FlashLog } from '../../src/log'
import { Database } from '../../src/storage'
import { until } from '../lib/gateway'
import { rounds } from '../lib/random'

const ROUNDS = rounds(5, 24)

async function opened(dir: string) {
  const log = await FlashLog.open({ dir: join(dir, 'log'), commitIntervalMs: 10, ackCommitMs: 2, commitBytes: 8192 })
  const windows = { dir: join(dir, 'sql'), readOnly: false, keepBytes: 0, keepMs: 0 }
  const db = new Database({ log, maxPackets: 60, windows })
  await db.connect()
  return { log, db }
}

async function child(dir: string): Promise<void> {
  const { log } = await opened(dir)
  for (let k = 0; ; k++) {
    const fact = {
      id: `dev-${k % 4}`,
      state: 'ONLINE',
      // every second one is delivered twice
      tRaw: 1_710_000_000_000 + Math.floor((log.lastSeq + 1) / 2) * 1000,
      aid: 7,
      sensors: [{ id: 's', status: 'OK', unit: 'K', value: 1 }],
    }
    log.appendFact(fact, { medium: 'local' }, 'synced')
    if (k % 20 !== 0) continue
    // the parent's count: it gets its turn whatever else this machine does
    writeSync(1, '.')
    await new Promise(resolve => setTimeout(resolve, 1))
  }
}

const windows = (dir: string): number => readdirSync(join(dir, 'sql')).filter(name => name.endsWith('.window')).length

async function parent(): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-windows-'))
  mkdirSync(join(dir, 'sql'))
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const run = spawn(process.execPath, [__filename], {
        env: { ...process.env, OS_NODE_WINDOWS_DIR: dir },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      // at a different point of the sealing in each round; early rounds hit its beginning
      const before = windows(dir)
      let turns = 0
      run.stdout.on('data', chunk => {
        turns += chunk.length
        if (turns > 9 * round && (round < 3 || windows(dir) > before)) run.kill('SIGKILL')
      })
      await new Promise(resolve => run.on('close', resolve))
      const { log, db } = await opened(dir)
      try {
        const seen = new Set<string>()
        for (const { fact } of log.read(0, { kinds: ['fact'] })) seen.add(`${fact!.id} ${fact!.tRaw}`)
        // a view that is being built reports that after a while, and is queried again
        const { total } = await until('the view is ready', () => db.queryPackets({ limit: 1 }))
        assert.equal(total, seen.size, `round ${round}`)
        const { devices } = await db.queryDevices()
        assert.equal(
          devices.reduce((sum, { packet_count }) => sum + packet_count, 0),
          seen.size,
        )
        assert.equal(db.status().windows?.damaged, 0)
      } finally {
        await db.close()
        await log.close()
      }
    }
    const files = readdirSync(join(dir, 'sql'))
    assert.ok(files.length > 3 && files.every(name => name.endsWith('.window')), files.join())
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

const dir = process.env['OS_NODE_WINDOWS_DIR']
if (dir !== undefined) void child(dir)
else test('a kill at any moment of sealing loses nothing and counts nothing twice', parent)
