// A real process that assigns ids and is killed in the middle, several times on the same files. This file is both the
// test and, with ID_CHILD set, the process that is killed.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { IdAllocator } from '../../../../src/protocol/ids/allocator'
import { FileIdStore } from '../../../../src/protocol/ids/id-store'

async function handOut(file: string, run: string): Promise<never> {
  const ids = new IdAllocator({}, { store: new FileIdStore(file) })
  for (let k = 0; ; k++) {
    const id = ids.allocateId({ device_id: `${run}-${k}` })
    await ids.commit()
    process.stdout.write(`${id} ${run}-${k}\n`)
    ids.allocateId({ device_id: `untold-${run}-${k}` })
    if (k === 30) process.kill(process.pid, 'SIGKILL')
  }
}

function killed(): void {
  const folder = mkdtempSync(join(tmpdir(), 'os-node-kill-'))
  const owner = new Map<string, string>()
  try {
    for (let run = 0; run < 3; run++) {
      const child = spawnSync(process.execPath, [__filename], {
        encoding: 'utf8',
        env: { PATH: process.env['PATH'], ID_CHILD: join(folder, 'ids.json'), ID_RUN: `run${run}` },
      })
      assert.equal(child.signal, 'SIGKILL', child.stderr)
      for (const line of child.stdout.trim().split('\n')) {
        const [id, device] = line.split(' ')
        assert.equal(owner.get(id!), undefined, `${id} given to ${owner.get(id!)} and ${device}`)
        owner.set(id!, device!)
      }
    }
    assert.ok(owner.size >= 90)
    const ids = new IdAllocator({}, { store: new FileIdStore(join(folder, 'ids.json')) })
    for (const [id, device_id] of owner) assert.equal(ids.allocateId({ device_id }), Number(id))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const child = process.env['ID_CHILD']
if (child) void handOut(child, process.env['ID_RUN'] ?? '')
else test('kill -9 while ids are assigned: none is assigned twice, each one sent is kept', killed)
