// Every write, sync, rename, remove and folder sync of the small files: configuration, identity, install id, token, users, sessions. At each of them
// the power is cut, with unsynced bytes lost, half present, present as zeros, and new names kept or not (so later ones before earlier
// ones); or the disk refuses once, and once with half of a write done. The next start reads the last reported state, or the change in
// progress, complete; a change after a refusal is kept. The log, the ids, the windows and a restore have their own tests:
// log-points.test.ts, id-points.test.ts, restore-points.test.ts and test/unit/storage/view-windows.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Subject, subjects } from '../lib/state-subjects'
import { MemFiles, PowerCut, systemError } from '../unit/log/memfiles'

const SUBJECTS = subjects('/data')

/** the share of unsynced bytes that is kept, whether as zeros, how much of the last write is done, which new names stay */
const LOSSES = [
  [0, false, 0, () => false],
  [1, false, 0.5, () => true],
  [0.5, false, 0.3, () => true],
  [0.7, true, 0, () => true],
  // the rename is on the medium, its folder's older entries are not; and the reverse
  [1, false, 0, (name: string) => !name.endsWith('.tmp')],
  [1, false, 0, (name: string) => name.endsWith('.tmp')],
] as const

/** What each operation of a run does to it. */
type Fault = (files: MemFiles, operation: number) => void

async function life(subject: Subject, tear: number, fault: Fault) {
  const { changes = 2 } = subject
  const files = new MemFiles()
  files.tear = tear
  files.gate = operation => {
    if (operation !== 'read' && operation !== 'close') fault(files, files.operations)
  }
  /** what a start found after each reported change; the first: nothing was changed */
  const told: unknown[] = [subject.read(new MemFiles())]
  let refused = 0
  let at = 0
  try {
    const { change } = subject.open(files)
    for (at = 1; at <= changes; at++) {
      try {
        await change(at)
      } catch (error) {
        if (error instanceof PowerCut || cutOff(error)) throw error
        refused++
        // the disk accepts it again
        await change(at + 10)
      }
      told.push(subject.read(files.copy()))
    }
  } catch (error) {
    if (!cutOff(error)) throw error
  }
  return { files, told, refused, ended: at > changes }
}

/** The cut itself, or what wraps it. */
function cutOff(error: unknown): boolean {
  if (error instanceof PowerCut) return true
  const { message, cause } = error as Error
  return /at operation \d+/.test(message) || (cause !== undefined && cutOff(cause))
}

const text = (value: unknown): string => JSON.stringify(value)

for (const [name, subject] of Object.entries(SUBJECTS)) {
  const { changes = 2 } = subject
  test(`${name}: after a power cut at every operation the next start has the last reported state or the change in progress`, async () => {
    const whole = (await life(subject, 0, () => undefined)).told.map(text)
    assert.equal(new Set(whole).size, changes + 1)
    let points = 0
    for (; points < 400; points++) {
      let left = 0
      for (const [kept, zeros, tear, survives] of LOSSES) {
        let cut = false
        const { files, told, ended } = await life(subject, tear, (_, operation) => {
          if (!cut && operation <= points) return
          cut = true
          throw new PowerCut(`at operation ${points}`)
        })
        if (!ended) left++
        const found = text(subject.read(files.afterPowerCut(kept, zeros, survives)))
        const where = `${name}, operation ${points}, kept ${kept}${zeros ? ' zeros' : ''}`
        // a token and an install id are others in each run: the found one is the last reported, or none that was reported before it
        const last = text(told.at(-1))
        const earlier = told.slice(0, -1).map(text)
        assert.ok(found === last || (!ended && !earlier.includes(found)), `${where}: ${found} after ${last}`)
        if (name !== 'token' && name !== 'install id') assert.ok(whole.includes(found), `${where}: ${found}`)
      }
      if (left === 0) break
    }
    assert.ok(points >= 4 * changes, `${points} points`)
  })

  test(`${name}: the disk refuses at every operation, once: that is reported, the old state stays, the next change is kept`, async () => {
    let refusals = 0
    for (const code of ['EIO', 'ENOSPC', 'EROFS'])
      for (let point = 1; point < 400; point++) {
        let failed = false
        const run = life(subject, 0.5, (_, operation) => {
          if (failed || operation < point) return
          failed = true
          throw systemError(code)
        })
        // a failure during the opening is not reported
        const lived = await run.catch((error: unknown) => {
          assert.match(String((error as { code?: unknown }).code), /^(CONFIG_WRITE|DATA_DIR|STORAGE|E[A-Z]+)$/)
          return undefined
        })
        if (!failed) break
        if (!lived) continue
        refusals += lived.refused
        const { files, told } = lived
        assert.equal(text(subject.read(files.afterPowerCut(0))), text(told.at(-1)), `${name}, ${code} at ${point}`)
      }
    assert.ok(refusals >= 3 * changes, `${refusals} refusals`)
  })
}
