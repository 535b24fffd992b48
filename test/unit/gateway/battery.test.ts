import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { BatteryClock } from '../../../src/gateway/time/battery'
import { ManualClock } from '../../../src/lib/clock'
import { nativeOrNull } from '../../../src/native'
import { stuckThreads } from '../../../src/native/bus'
import { removeDir, tempDir, until } from '../../lib/gateway'
import { HangingFile, heldClock } from '../../lib/hanging'

const dir = tempDir()
after(() => removeDir(dir))

test('the battery clock is known at once, goes on by itself, and is asked again meanwhile', async t => {
  heldClock(t)
  const [clock, path] = [new ManualClock(), join(dir, 'clock')]
  const battery = new BatteryClock(path, clock)
  assert.equal(battery.seconds(), undefined)
  writeFileSync(path, '1800000000\n')
  assert.equal(battery.seconds(), 1_800_000_000)
  clock.advance(60_000)
  writeFileSync(path, '1800003600\n')
  const now = battery.seconds()
  await battery.answered
  assert.deepEqual([now, battery.seconds()], [nativeOrNull() ? 1_800_000_060 : 1_800_003_600, 1_800_003_600])
  rmSync(path)
  assert.equal(battery.seconds(), undefined)
})

test('a battery clock whose bus hangs holds nobody up, and is asked by one thread only until it is back', {
  skip: nativeOrNull() ? false : 'this machine has no C compiler',
}, async t => {
  const clock = heldClock(t)
  const path = join(dir, 'hangs')
  const battery = new BatteryClock(path)
  writeFileSync(path, '1800000000')
  battery.seconds()
  rmSync(path)
  const hanging = new HangingFile(path)
  t.after(() => hanging.letGo())
  assert.ok(battery.seconds()! >= 1_800_000_000, 'what it said last counts')
  await hanging.begun()
  clock.pass(2001)
  await battery.answered
  for (let k = 0; k < 5; k++) {
    assert.equal(battery.seconds(), undefined)
    await battery.answered
  }
  assert.equal(stuckThreads(path), 1)
  hanging.letGo()
  await until('the thread ends', () => stuckThreads(path) === 0)
})
