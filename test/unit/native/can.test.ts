// The CAN calls of the addon with wrong arguments, and what works on any machine: it runs with sanitizers too.
// Needs: cc
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { constants } from 'node:os'
import { test } from 'node:test'
import { native, nativeOrNull } from '../../../src/native'
import { CAN_EFF, CAN_SLOT, CANFD_FDF, CanFrames, CanRaw, canLink, linkChanges } from '../../../src/native/can'

const skip = nativeOrNull() ? false : 'this machine has no C compiler'
const { EINVAL, ENODEV } = constants.errno
// biome-ignore lint/suspicious/noExplicitAny: wrong arguments are the point
const calls = (): any => native().addon

test('wrong arguments are refused and touch nothing', { skip }, () => {
  const can = calls()
  const changes = can.openLinkChanges()
  const frames = new Uint8Array(2 * CAN_SLOT)
  const times = new Float64Array(2)
  const wrong: (() => number)[] = [
    () => can.openCanRaw(),
    () => can.openCanRaw('lo', 0, 0, 0, new Uint32Array(3)),
    () => can.openCanRaw('', 0, 0, 0, null),
    () => can.openCanRaw('x'.repeat(40), 0, 0, 0, null),
    () => can.openIsotp('lo', new Uint32Array(3), 0),
    () => can.openIsotp('lo', new Uint8Array(44), 0),
    () => can.receiveCan(undefined, frames, times, null),
    () => can.receiveCan(changes, new Uint8Array(CAN_SLOT - 1), times, null),
    () => can.receiveCan(changes, frames, new Float64Array(0), null),
    () => can.receiveCan(changes, frames, times, new Float64Array(1)),
    () => can.sendCan(changes, frames, 0, 3),
    () => can.sendCan(changes, frames, 2, 1),
    () => can.sendCan(changes, frames, -1, 1),
    () => can.sendCan(changes, frames, 0, 0),
    () => can.sendCan(changes, frames, 2 ** 31 - 1, 2 ** 31 - 1),
    () => can.socketError(5),
    () => can.canLink('lo', new Uint32Array(15)),
    () => can.canLink('lo', new Uint8Array(64)),
  ]
  for (const call of wrong) assert.equal(call(), -EINVAL, String(call))
  assert.equal(can.canLink('none0', new Uint32Array(16)), -ENODEV)
  can.close(changes)
})

test('an interface that is no CAN is reported as such; a missing one is NOT_FOUND', { skip }, () => {
  const { kind, state, index, bitrate, restarts } = canLink('lo')
  assert.deepEqual([kind, state, index > 0, bitrate, restarts], ['other', 'unknown', true, 0, 0])
  assert.throws(() => canLink('none0'), { code: 'NOT_FOUND' })
  assert.throws(() => CanRaw.open('none0'), { code: 'NOT_FOUND' })
})

test('watching for link changes 500 times leaves no descriptor open', { skip }, () => {
  linkChanges(() => undefined).close()
  const before = readdirSync('/proc/self/fd').length
  for (let n = 0; n < 500; n++) linkChanges(() => undefined).close()
  assert.equal(readdirSync('/proc/self/fd').length, before)
})

test('frames are written and read in their slots', () => {
  const frames = new CanFrames(2, { hardware: true })
  frames.set(0, 0x123 + CAN_EFF, Uint8Array.of(1, 2, 3))
  frames.set(1, 0x7ff, new Uint8Array(64).fill(9), CANFD_FDF)
  assert.deepEqual([frames.id(0), frames.length(0), frames.flags(0), frames.way(0)], [0x8000_0123, 3, 0, 0])
  assert.deepEqual([...frames.data(0)], [1, 2, 3])
  const view = frames.data(0)
  assert.equal(frames.data(0), view, 'the view of a slot is made once')
  assert.deepEqual([frames.length(1), frames.flags(1), frames.data(1)[63]], [64, CANFD_FDF, 9])
  assert.equal(frames.hardware?.length, 2)
})
