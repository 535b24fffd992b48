// The log's code from before segments were made longer than their records reads what this one writes, as after the rollback of an update: after
// a kill, after a power cut between two commits, and where a power cut undid the truncation of a sealed segment. The zeros are `torn` at most, and
// no damage. Of a commit that a power cut stopped within a record it counts the remaining bytes as damage: numbers that were not committed, and no others. Then this one continues on the older one's log.
// Needs: history
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { build } from 'esbuild'
import type { FlashLog } from '../../src/log'
import { removeDir, root, tempDir } from '../lib/gateway'
import { ManualClock } from '../lib/manual'
import { DIR, factOf, factsOf, LOCAL, ManualTimers, openLog } from '../unit/log/helpers'
import type { MemFiles } from '../unit/log/memfiles'

/** the last one whose segments end with their last record */
const OLDER = '97ba3854d4723de653f8d8ac2a4111bab2588387'
const SMALL = { segmentBytes: 32 * 1024, maxBytes: 512 * 1024 }
const dir = tempDir()
after(() => removeDir(dir))

let older: typeof FlashLog
before(async () => {
  execFileSync('tar', ['-x', '-C', dir], {
    input: execFileSync('git', ['archive', OLDER, 'src'], { cwd: root, maxBuffer: 1 << 28 }),
  })
  const outfile = join(dir, 'log.cjs')
  await build({ entryPoints: [join(dir, 'src/log/index.ts')], outfile, bundle: true, platform: 'node', format: 'cjs' })
  assert.doesNotMatch(readFileSync(outfile, 'utf8'), /\bresize\(/)
  older = createRequire(outfile)(outfile).FlashLog
})

/** A log with sealed segments and `facts` committed facts, and 12 more of a commit that has not begun. */
async function written(facts: number): Promise<{ files: MemFiles; committed: number }> {
  const { log, files, timers } = await openLog(SMALL)
  for (let k = 0; k < facts; k++) {
    log.appendFact(factOf(k, 'x'.repeat(200)), LOCAL)
    if (k % 7 === 0) await log.flush()
  }
  await log.flush()
  for (let k = 0; k < 12; k++) log.appendFact(factOf(facts + k, 'x'.repeat(200)), LOCAL)
  await timers.advance(50)
  return { files, committed: log.committedSeq }
}

const FACTS = 400
const upTo = (count: number): number[] => [...Array(count).keys()]

/** Opens the log with the older code and then with this one; both find `facts` facts. */
async function both(
  files: MemFiles,
  facts: number,
  most: { torn: number; damaged: number; after: number },
  where: string,
): Promise<void> {
  const clock = new ManualClock()
  const own = new ManualTimers(clock)
  // as that code expects them
  const timers = {
    set: (ms: number, run: () => void) => own.after(ms, run),
    clear: (cancel?: () => void) => cancel?.(),
  }
  const log = await older.open({ dir: DIR, files, clock, timers: timers as never, ...SMALL })
  assert.deepEqual(factsOf(log), upTo(facts), where)
  const { torn, damaged, state } = log.status()
  assert.ok(torn <= most.torn && damaged <= most.damaged, `${where}: ${torn} torn, ${damaged} damaged`)
  assert.ok(
    log.losses.every(({ from }) => from > most.after),
    where,
  )
  assert.equal(state, 'ok', where)
  log.appendFact(factOf(facts), LOCAL)
  await log.close()
  const { log: again } = await openLog({ ...SMALL, files: files.afterPowerCut() })
  assert.deepEqual([factsOf(again), again.status().damaged, again.cleanStop], [upTo(facts + 1), damaged, true], where)
}

test('after a kill and after a power cut the zeros behind the records are torn at most', async () => {
  const { files, committed } = await written(FACTS)
  assert.ok(files.segments(DIR).length > 3)
  const most = { torn: 1, damaged: 0, after: committed }
  await both(files.copy(), FACTS + 12, most, 'kill')
  await both(files.afterPowerCut(), FACTS, most, 'power cut between two commits')
  await both(files.afterPowerCut(1), FACTS + 12, most, 'power cut that takes nothing')
})

test('zeros behind a sealed segment, and a log after a clean stop, are nothing at all', async () => {
  const { log, files } = await openLog({ ...SMALL, files: (await written(FACTS)).files })
  await log.close()
  const longer = files.copy()
  for (const name of files.segments(DIR).slice(0, -1)) {
    const data = Buffer.concat([files.read(`${DIR}/${name}`), Buffer.alloc(40_000)])
    longer.files.set(`${DIR}/${name}`, { data, durable: Buffer.from(data) })
  }
  const most = { torn: 0, damaged: 0, after: 0 }
  for (const one of [files, longer]) await both(one, FACTS + 12, most, one === files ? 'stop' : 'zeros')
})

test('of a commit that a power cut stopped only its own records are lost', async () => {
  const { files, committed } = await written(FACTS)
  for (const kept of upTo(20)) {
    const cut = files.afterPowerCut(kept / 20)
    const { log } = await openLog({ ...SMALL, files: cut.copy() })
    const { torn, damaged } = log.status()
    assert.deepEqual([damaged, torn <= 1], [0, true])
    await both(cut, factsOf(log).length, { torn: 1, damaged: 2, after: committed }, `${kept} of 20`)
  }
})
