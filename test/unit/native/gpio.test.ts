// The addon's GPIO where there is no chip: whatever is asked of it with whatever it is given, the answer is an error.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { native, nativeOrNull } from '../../../src/native'
import { GpioChip } from '../../../src/native/gpio'
import type { Descriptor } from '../../../src/native/socket'

const EINVAL = -22
const skip = nativeOrNull() ? false : 'this machine has no C compiler'

test('what is no chip is told by the error of the kernel', { skip }, () => {
  const errnoIs = (name: string) => (error: unknown) => error instanceof OsError && error.details.errno === name
  assert.throws(() => GpioChip.open('/dev/null'), errnoIs('ENOTTY'))
  assert.throws(() => GpioChip.open('/dev/no-such-chip'), errnoIs('ENOENT'))
  assert.throws(() => GpioChip.open('x'.repeat(300)), errnoIs('EINVAL'))
})

test('wrong arguments are refused, whatever they are', { skip }, () => {
  const { gpio } = native()
  const bytes = new Uint8Array(64)
  const words = new Uint32Array(12)
  for (const none of [undefined, null, 7, {}, 'x'] as unknown as Descriptor[]) {
    assert.equal(gpio.gpioChipInfo(none, bytes), EINVAL)
    assert.equal(gpio.gpioLineInfo(none, 0, bytes), EINVAL)
    assert.equal(gpio.requestGpio(none, words, 4, 0, bytes, 0, 'x'), EINVAL)
    assert.equal(gpio.readGpio(none, bytes), EINVAL)
    assert.equal(gpio.setGpio(none, 0, 1), EINVAL)
    assert.equal(gpio.readGpioEvents(none, words), EINVAL)
  }
})
