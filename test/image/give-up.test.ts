// The script `give-up`, which ends a trial whose own os-node-update does not work; boot.long.test.ts has the same on a board.
// Needs: linux rigtools
import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { LastUpdate } from '../../src/update/trial'
import { runWith } from '../lib/busybox'
import { root, tempDir } from '../lib/gateway'

const GIVE_UP = join(root, 'src/build/image/root/usr/lib/os-node/give-up')

/** Whether the board restarts; `partition` of the running root. */
function restarts(result: string, last: Partial<LastUpdate> | null, partition = 6): boolean {
  const dir = tempDir()
  const [record, commandLine, called] = ['last.json', 'cmdline', 'called'].map(name => join(dir, name)) as [
    string,
    string,
    string,
  ]
  if (last) writeFileSync(record, `${JSON.stringify({ version: '1.2.4', from: '1.2.3', ...last })}\n`)
  writeFileSync(commandLine, `console=tty1 os_node.partition=${partition} os_node.blocks=9\n`)
  runWith({ systemctl: `#!/bin/sh\necho "$@" >${called}\n` }, GIVE_UP, result, record, commandLine)
  return existsSync(called)
}

test('a board whose os-node-update failed on trial restarts; one that is not on trial stays', () => {
  for (const result of ['exit-code', 'signal', 'core-dump', 'timeout']) {
    assert.ok(restarts(result, { slot: 'B', outcome: 'trial' }), result)
    assert.ok(restarts(result, { slot: 'A', outcome: 'trial' }, 5), result)
    assert.ok(!restarts(result, { slot: 'B', outcome: 'trial' }, 5), 'the old slot runs')
    assert.ok(!restarts(result, { slot: 'B', outcome: 'confirmed' }))
    assert.ok(!restarts(result, { slot: 'B', outcome: 'rolled back' }))
    assert.ok(!restarts(result, null))
  }
  assert.ok(!restarts('success', { slot: 'B', outcome: 'trial' }))
})
