// Needs: cc
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ConfigStore } from '../../../../src/config'
import { TimeKeeper } from '../../../../src/gateway/time/gateway-time'
import { RtcClock } from '../../../../src/gateway/time/rtc'
import type { ClockSigns } from '../../../../src/gateway/time/time-sources'
import { realFiles } from '../../../../src/lib/files'
import { silentLogger } from '../../../../src/lib/logger'
import { nativeOrNull } from '../../../../src/native'
import { stuckThreads } from '../../../../src/native/native-thread'
import { removeDir, tempDir, until } from '../../../lib/gateway'
import { HangingFile, heldClock } from '../../../lib/hanging'
import { ManualClock } from '../../../lib/manual'

function deferred() {
  let resolve = (): void => undefined
  const promise = new Promise<void>(done => {
    resolve = done
  })
  return { promise, resolve }
}

const dir = tempDir()
after(() => removeDir(dir))

test('the RTC is read off the main thread, its time continues automatically, and it is read again meanwhile', async t => {
  heldClock(t)
  for (const native of nativeOrNull() ? [nativeOrNull, () => null] : [() => null]) {
    const [clock, path] = [new ManualClock(), join(dir, 'clock')]
    const battery = new RtcClock(path, clock, native)
    assert.equal(battery.seconds(), undefined)
    writeFileSync(path, '1800000000\n')
    assert.equal(battery.seconds(), undefined, 'no caller waits for it')
    await battery.answered
    clock.advance(60_000)
    writeFileSync(path, '1800003600\n')
    assert.equal(battery.seconds(), 1_800_000_060)
    await battery.answered
    assert.equal(battery.seconds(), 1_800_003_600)
    await battery.answered
    rmSync(path)
    assert.equal(battery.seconds(), undefined)
  }
})

test('the time is right from the start when the RTC answers, or as soon as a slow one does', async () => {
  const { promise: never, resolve: answer } = deferred()
  for (const slow of [false, true]) {
    const signs: ClockSigns = {}
    const clock = new ManualClock(1_800_000_000_000)
    const said = (): void => {
      signs.rtcS = 1_800_000_000
    }
    const keeper = await TimeKeeper.open({
      config: ConfigStore.load({ cwd: dir, env: {}, keep: false }),
      clock,
      files: realFiles,
      logger: silentLogger,
      builtAt: 1_700_000_000_000,
      clockSigns: () => signs,
      clockAnswer: () => (slow ? never.then(said) : Promise.resolve().then(said)),
    })
    assert.equal(keeper.status().quality, slow ? 'unsynced' : 'system')
    if (!slow) continue
    answer()
    await until('it counts', () => keeper.status().quality === 'system')
  }
})

test('an RTC on a hanging bus blocks no caller, and only one thread waits for it until it returns', {
  skip: nativeOrNull() ? false : 'this machine has no C compiler',
}, async t => {
  const clock = heldClock(t)
  const path = join(dir, 'hangs')
  const battery = new RtcClock(path)
  writeFileSync(path, '1800000000')
  battery.seconds()
  await battery.answered
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
