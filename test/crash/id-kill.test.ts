// A real process assigns ids, takes some back, spills and writes checkpoints, and is killed at random moments, many times
// over the same files. Every id it sent belongs to that device until the device released it; none is lost. The file is also
// the child: it runs as such when the variable is set.
// Long: more kills
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { IdAllocator } from '../../src/protocol/ids/allocator'
import { FileIdStore } from '../../src/protocol/ids/id-store'
import { rounds } from '../lib/random'

const ROUNDS = rounds(8, 28)
const open = (dir: string): IdAllocator =>
  new IdAllocator({ maxReleased: 256 }, { store: new FileIdStore(join(dir, 'ids.json')) })

async function child(dir: string, run: string): Promise<void> {
  const ids = open(dir)
  // long enough for a checkpoint every few hundred devices
  const note = 'x'.repeat(700)
  writeSync(1, `opened ${ids.stats().total_allocated}\n`)
  for (let k = 0; ; k++) {
    const given = Array.from({ length: 40 }, (_, n) => {
      const device_id = `${run}-${k}-${n}`
      return [ids.allocateId({ device_id, note }), device_id] as const
    })
    await ids.commit()
    writeSync(1, given.map(([id, device]) => `told ${id} ${device}\n`).join(''))
    ids.allocateId({ device_id: `untold-${run}-${k}` })
    if (k % 3 === 0) continue
    const back = given.slice(0, 30)
    writeSync(1, back.map(([id]) => `back ${id}\n`).join(''))
    for (const [id] of back) ids.releaseId(id, true)
    if (k % 4 === 1) await ids.commit()
  }
}

async function parent(): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-idkill-'))
  const owner = new Map<string, string>()
  let told = 0
  try {
    for (let round = 0; round < ROUNDS; round++) {
      let text = ''
      const run = spawn(process.execPath, [__filename], {
        env: { ...process.env, OS_NODE_ID_DIR: dir, OS_NODE_ID_RUN: `r${round}` },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      run.stdout.on('data', chunk => {
        text += String(chunk)
        // at a different point in each round; early rounds hit the opening itself
        if (round < 3 || text.length > (round * 7919) % 60_000) run.kill('SIGKILL')
      })
      await new Promise(resolve => run.on('close', resolve))
      assert.equal(run.signalCode, 'SIGKILL')
      for (const line of text.split('\n').slice(0, -1)) {
        const [word, id, device] = line.split(' ')
        if (word === 'back') owner.delete(id!)
        else if (word === 'told') {
          assert.equal(owner.get(id!), undefined, `round ${round}: ${id} told to ${owner.get(id!)} and ${device}`)
          owner.set(id!, device!)
          told++
        }
      }
    }
    const ids = open(dir)
    for (const [id, device_id] of owner) {
      assert.ok(ids.isAllocated(Number(id)), `${id} of ${device_id} is free`)
      assert.equal(ids.getMeta(Number(id))['device_id'], device_id)
    }
    const { total_allocated, total_released, next_candidate } = ids.stats()
    assert.equal(total_allocated + total_released, next_candidate - 1)
    assert.ok(told > 500, `${told} ids`)
    ids.stop()
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

const dir = process.env['OS_NODE_ID_DIR']
if (dir) void child(dir, process.env['OS_NODE_ID_RUN'] ?? '')
else test('after many kill -9 at random moments every id that was sent belongs to one device', parent)
