// A real process appends to a real log and is killed at random moments. What it reported as committed must be present
// after the next start, nothing twice, with rising seqs. The file is also the child: it runs as such when the variable is
// set.
// Long: more kills
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { FlashLog, verify } from '../../src/log'
import { rounds } from '../lib/random'

const ROUNDS = rounds(12, 48)
const OPTIONS = {
  commitIntervalMs: 20,
  ackCommitMs: 2,
  commitBytes: 8192,
  segmentBytes: 64 * 1024,
  maxBytes: 512 * 1024,
}

async function child(dir: string): Promise<void> {
  const log = await FlashLog.open({ dir, ...OPTIONS })
  // the reported pairs are written immediately, so that the parent has them however early the kill is
  writeSync(1, `opened ${log.lastSeq}\n`)
  log.onCommit(seq => {
    writeSync(1, `committed ${seq}\n`)
  })
  for (let k = 0; ; k++) {
    const seq = log.appendFact(
      {
        id: 'dev',
        state: 'ONLINE',
        tRaw: Date.now(),
        aid: 7,
        sensors: [{ id: 's', status: 'OK', unit: 'K', value: k }],
      },
      { medium: 'local' },
      'synced',
    )
    writeSync(1, `appended ${seq}\n`)
    if (k % 10 === 0) log.appendCursor('main', seq)
    if (k % 7 === 0) await log.committed(seq)
    else if (k % 3 === 0) await new Promise(resolve => setImmediate(resolve))
  }
}

async function parent(): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-kill-'))
  const used = new Set<number>()
  const sure = new Set<number>()
  let newest = 0
  try {
    for (let round = 0; round < ROUNDS; round++) {
      let text = ''
      let committed = 0
      const fresh: number[] = []
      const run = spawn(process.execPath, [__filename], {
        env: { ...process.env, OS_NODE_KILL_DIR: dir },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      run.stdout.on('data', chunk => {
        text += String(chunk)
        // a moment after the opening line, at a different point in each round; early rounds hit the opening itself
        if (round < 4 || text.length > (round * 7919) % 30_000) run.kill('SIGKILL')
      })
      await new Promise(resolve => run.on('close', resolve))
      for (const line of text.split('\n').slice(0, -1)) {
        const [word, number] = line.split(' ')
        const seq = Number(number)
        if (word === 'appended') {
          assert.ok(!used.has(seq), `round ${round}: seq ${seq} was used before`)
          assert.ok(seq > newest)
          newest = seq
          used.add(seq)
          fresh.push(seq)
        } else if (word === 'committed') committed = Math.max(committed, seq)
      }
      for (const seq of fresh) if (seq <= committed) sure.add(seq)
      const log = await FlashLog.open({ dir, ...OPTIONS })
      const seqs = Array.from(log.read(0), record => record.seq)
      assert.deepEqual(
        seqs,
        [...new Set(seqs)].sort((a, b) => a - b),
        'rising, none twice',
      )
      const there = new Set(seqs)
      for (const seq of sure) {
        if (seq < log.firstSeq && log.status().dropped > 0) sure.delete(seq)
        else assert.ok(there.has(seq), `round ${round}: ${seq} was committed`)
      }
      assert.ok(log.lastSeq > newest)
      assert.equal(log.status().damaged, 0)
      if (sure.size > 50) assert.ok(log.cursor('main')! <= newest && log.cursor('main')! > 0)
      await log.close()
      const found = verify(dir)
      assert.deepEqual([found.ok, found.first_seq, found.last_seq], [true, log.firstSeq, log.lastSeq])
    }
    assert.ok(used.size > 500 && sure.size > 200)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

const dir = process.env['OS_NODE_KILL_DIR']
if (dir) void child(dir)
else test(`a log killed ${ROUNDS} times keeps what it committed and uses no seq twice`, parent)
