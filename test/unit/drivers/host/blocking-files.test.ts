// Files of the kernel that hang: only their own values fail, and they are not read again meanwhile.
// Needs: cc
import assert from 'node:assert/strict'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { BlockingFiles, isGone } from '../../../../drivers/host/blocking-files'
import { nativeOrNull } from '../../../../src/native'
import { until } from '../../../lib/gateway'
import { HangingFile, heldClock } from '../../../lib/hanging'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { CHIPS, events, source, tree } from './host-world'

test('a file that hangs fails only its own sensor, is not read again while it hangs, and recovers', async t => {
  const { root } = tree(t, CHIPS)
  const timers = new ManualTimers(new ManualClock())
  let release = (): void => undefined
  let hangingReads = 0
  const files = new BlockingFiles({
    timers,
    deadlineMs: 2500,
    read: async path => {
      if (path.endsWith('hwmon1/in0_input') && hangingReads++ === 0)
        await new Promise<void>(resolve => {
          release = resolve
        })
      return readFileSync(path, 'latin1')
    },
  })
  const { source: chips } = source('hwmon', root, {}, { files })
  await chips.open(events)
  const reading = chips.read()
  await timers.advance(2500)
  const rows = await reading
  assert.deepEqual(rows[4], ['nct6775_in0', 'ERROR', null, 'V'])
  assert.deepEqual(rows[7], ['nct6775_fan1', 'OK', 1203, 'rpm'])
  assert.equal(files.stuck, 1)
  assert.equal((await chips.read())[4]?.[1], 'ERROR')
  assert.equal(hangingReads, 1)
  release()
  await timers.advance(0)
  assert.equal(files.stuck, 0)
  assert.deepEqual((await chips.read())[4], ['nct6775_in0', 'OK', 1.064, 'V'])
  assert.equal(timers.pending, 0)
})

test('while two reads are pending no third is started, so that the threads that sync the log stay free', async () => {
  const timers = new ManualTimers(new ManualClock())
  let begun = 0
  const files = new BlockingFiles({ timers, read: () => new Promise(() => begun++) })
  const reads = ['a', 'b'].map(path => assert.rejects(files.text(path), { code: 'TIMEOUT' }))
  await timers.advance(2500)
  await Promise.all(reads)
  await assert.rejects(files.text('c'), { code: 'TIMEOUT' })
  assert.equal(begun, 2)
})

test('with the addon a file that hangs fails only its own value, and is read again once it recovers', {
  skip: nativeOrNull() ? false : 'this machine has no C compiler',
}, async t => {
  const { root } = tree(t, { chip: '45000\n', other: '7\n' })
  const hanging = new HangingFile(join(root, 'hangs'))
  const { path } = hanging
  const clock = heldClock(t)
  const files = new BlockingFiles({ deadlineMs: 40 })
  const first = assert.rejects(files.text(path), { code: 'TIMEOUT' })
  // queued after it, and still answered
  const behind = files.text(join(root, 'chip'))
  await hanging.begun()
  clock.pass(41)
  await first
  assert.equal(await behind, '45000\n')
  assert.equal(files.stuck, 1)
  await assert.rejects(files.text(path), { code: 'TIMEOUT' })
  assert.equal(await files.text(join(root, 'other')), '7\n')
  await assert.rejects(files.text(join(root, 'none')), error => isGone(error))
  hanging.letGo()
  await until('its thread is back', () => files.stuck === 0)
  writeFileSync(`${path}.new`, '1\n')
  renameSync(`${path}.new`, path)
  assert.equal(await files.text(path), '1\n')
})
