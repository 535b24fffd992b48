// The watchdog of the event loop, on a real process whose loop stops: this file again, as a child.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { FreezeWatch, takeFrozen } from '../../../../src/gateway/guard/freeze'
import { silentLogger } from '../../../../src/lib/logger'

const freezeMs = Number(process.env.OS_NODE_FREEZE_MS ?? 0)
/** runs until the place is reported: the engine has two seconds to report it */
const TRIES = 4

if (freezeMs > 0) {
  new FreezeWatch(silentLogger, process.env.OS_NODE_FREEZE_NOTE).limit(Number(process.env.OS_NODE_FREEZE_LIMIT))
  setTimeout(function stuckHere() {
    const end = Date.now() + freezeMs
    while (Date.now() < end);
    process.exit(0)
  }, 300)
} else {
  test('a frozen event loop is killed by SIGALRM with a line on stderr; a short block is not', t => {
    const dir = mkdtempSync(join(tmpdir(), 'os-freeze-'))
    t.after(() => rmSync(dir, { recursive: true, force: true }))
    const note = join(dir, 'frozen.json')
    const run = (ms: number, limitMs: number) =>
      spawnSync(process.execPath, [__filename], {
        env: {
          ...process.env,
          OS_NODE_FREEZE_MS: String(ms),
          OS_NODE_FREEZE_LIMIT: String(limitMs),
          OS_NODE_FREEZE_NOTE: note,
        },
        timeout: 120_000,
      })
    let told = ''
    let left: ReturnType<typeof takeFrozen>
    for (let k = 0; k < TRIES && !left?.stack[0]; k++) {
      const frozen = run(60_000, 2500)
      assert.equal(frozen.signal, 'SIGALRM')
      told = frozen.stderr.toString()
      left = takeFrozen(note, silentLogger)
    }
    assert.match(told, /the event loop has been frozen for \d+ s; ending the process in stuckHere \(/)
    assert.match(left!.text, /^the event loop has been frozen for \d+ s$/)
    assert.ok(left!.stack[0]!.startsWith('stuckHere (') && left!.stack[0]!.includes(__filename), left!.stack.join('\n'))
    assert.equal(takeFrozen(note, silentLogger), undefined, 'it is told once')
    assert.equal(run(2000, 10_000).status, 0)
    assert.equal(existsSync(note), false)
    writeFileSync(note, '{')
    assert.equal(takeFrozen(note, silentLogger), undefined, 'a damaged one counts as none')
  })

  test('a long limit is checked rarely, because each check wakes the processor', async t => {
    const beats: (number | undefined)[] = []
    const begin = globalThis.setInterval
    t.mock.method(globalThis, 'setInterval', (call: () => void, ms?: number) => {
      beats.push(ms)
      return begin(call, ms)
    })
    const watch = new FreezeWatch(silentLogger)
    for (const limitMs of [5000, 30_000, 3_600_000]) watch.limit(limitMs)
    await watch.stop()
    assert.deepEqual(beats, [1000, 3000, 5000])
  })
}
