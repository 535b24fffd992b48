// The watch over the event loop, on a real process whose loop stops turning: this file again, as a child.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { FreezeWatch, takeFrozen } from '../../../src/gateway/guard/freeze'
import { silentLogger } from '../../../src/lib/logger'

const freezeMs = Number(process.env.OS_NODE_FREEZE_MS ?? 0)

if (freezeMs > 0) {
  new FreezeWatch(silentLogger, process.env.OS_NODE_FREEZE_NOTE).limit(2500)
  setTimeout(function stuckHere() {
    const end = Date.now() + freezeMs
    while (Date.now() < end);
    process.exit(0)
  }, 300)
} else {
  test('a frozen event loop is ended by SIGALRM with a line on stderr; a short stop is not', t => {
    const dir = mkdtempSync(join(tmpdir(), 'os-freeze-'))
    t.after(() => rmSync(dir, { recursive: true, force: true }))
    const note = join(dir, 'frozen.json')
    const run = (ms: number) =>
      spawnSync(process.execPath, [__filename], {
        env: { ...process.env, OS_NODE_FREEZE_MS: String(ms), OS_NODE_FREEZE_NOTE: note },
        timeout: 20_000,
      })
    const frozen = run(15_000)
    assert.equal(frozen.signal, 'SIGALRM')
    assert.match(
      frozen.stderr.toString(),
      /the event loop has been frozen for \d+ s; ending the process in stuckHere \(/,
    )
    const left = takeFrozen(note, silentLogger)
    assert.match(left!.text, /^the event loop has been frozen for \d+ s$/)
    assert.ok(left!.stack[0]!.startsWith('stuckHere (') && left!.stack[0]!.includes(__filename), left!.stack.join('\n'))
    assert.equal(takeFrozen(note, silentLogger), undefined, 'it is told once')
    assert.equal(run(500).status, 0)
    assert.equal(existsSync(note), false)
    writeFileSync(note, '{')
    assert.equal(takeFrozen(note, silentLogger), undefined, 'a damaged one counts as none')
  })
}
