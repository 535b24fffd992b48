import assert from 'node:assert/strict'
import { test } from 'node:test'
import { realHardware } from '../../../../drivers/lora/hardware'
import { systemClock } from '../../../../src/lib/clock'
import { nativeOrNull } from '../../../../src/native'

test('a missing SPI device is reported with what to do', {
  skip: nativeOrNull() ? false : 'this machine has no C compiler',
}, async () => {
  await assert.rejects(realHardware(systemClock).openSpi('/dev/spidev-none', 1_000_000), {
    code: 'NOT_FOUND',
    message: '/dev/spidev-none is not there: SPI is not enabled, or has another number',
    hint: /dtparam=spi=on/,
  })
})
