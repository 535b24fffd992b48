// The watch over the event loop, on a real process whose loop stops turning: this file again, as a child.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { FreezeWatch } from '../../../src/gateway/guard/freeze'
import { silentLogger } from '../../../src/lib/logger'

const freezeMs = Number(process.env.OS_NODE_FREEZE_MS ?? 0)

if (freezeMs > 0) {
  new FreezeWatch(silentLogger).limit(2500)
  setTimeout(() => {
    const end = Date.now() + freezeMs
    while (Date.now() < end);
    process.exit(0)
  }, 300)
} else {
  test('a frozen event loop is ended by SIGALRM with a line on stderr; a short stop is not', () => {
    const run = (ms: number) =>
      spawnSync(process.execPath, [__filename], {
        env: { ...process.env, OS_NODE_FREEZE_MS: String(ms) },
        timeout: 20_000,
      })
    const frozen = run(15_000)
    assert.equal(frozen.signal, 'SIGALRM')
    assert.match(frozen.stderr.toString(), /the event loop has been frozen for \d+ s/)
    assert.equal(run(500).status, 0)
  })
}
