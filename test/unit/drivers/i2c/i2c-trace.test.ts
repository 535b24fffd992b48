// What is written to I2C chips, and the values of their registers, compared with i2c-trace.txt.
import { test } from 'node:test'
import { Ads1115, INPUTS, RANGES, RATES } from '../../../../drivers/i2c/ads1115'
import { Bme280, OVERSAMPLINGS } from '../../../../drivers/i2c/bme280'
import type { ChipIo } from '../../../../drivers/i2c/device'
import { Ds3231 } from '../../../../drivers/i2c/ds3231'
import * as ina219 from '../../../../drivers/i2c/ina219'
import { crcSht, REPEATABILITY, Sht3x } from '../../../../drivers/i2c/sht3x'
import { dice, digest, Trace } from '../../../lib/trace'

test('writes to I2C chips, and the values of their registers, are as i2c-trace.txt has them', async () => {
  const trace = new Trace('unit/drivers/i2c/i2c-trace.txt')
  const { below, chance, pick } = dice(5)
  const chips = {
    ads1115: () => new Ads1115([{ input: pick(Object.keys(INPUTS)) as never, range: pick(RANGES) }], pick(RATES)),
    bme280: () => new Bme280(pick(OVERSAMPLINGS)),
    sht3x: () => new Sht3x(pick(Object.keys(REPEATABILITY)) as keyof typeof REPEATABILITY),
    ina219: () => new ina219.Ina219({ shuntOhm: pick([0.1, 0.01]), maxA: pick([0.4, 2, 3.2]) }),
    ds3231: () => new Ds3231(),
  }
  for (const [name, make] of Object.entries(chips)) {
    let seen = 0
    for (let k = 0; k < 80; k++) {
      const done: unknown[] = []
      let last: number[] = []
      const io: ChipIo = {
        async read(register, count) {
          done.push([register, count])
          if (name === 'ads1115' && register === 1 && chance(0.7)) return Buffer.from(last.slice(1))
          if (register === 0xd0) return Buffer.of(pick([0x60, 0x58, 0x56, 0x57, 0x61]))
          if (name === 'ds3231') return Buffer.of(below(256), chance(0.9) ? 0x40 * below(4) : 7).subarray(0, count)
          return Buffer.from(Array.from({ length: count }, () => pick([0, 0, 0x80, 0xff, below(256)])))
        },
        async write(...bytes) {
          done.push(bytes)
          last = bytes
        },
        async receive(count) {
          done.push(count)
          const words = [0, 3].slice(0, count / 3).flatMap(() => {
            const word = Buffer.of(below(256), below(256))
            return [...word, chance(0.95) ? crcSht(word) : below(256)]
          })
          return Buffer.from(words)
        },
        async sleep(ms) {
          done.push(ms)
          if (done.length > 60) throw new Error('it waits for ever')
        },
      }
      const chip = make()
      try {
        await chip.setUp(io)
        for (let n = 0; n < 3; n++) done.push(await chip.sample(io))
      } catch (error) {
        done.push((error as Error).message)
      }
      seen = digest(seen, Buffer.from(JSON.stringify(done)))
      if (k % 16 === 15) trace.say(`${name} ${k}`, seen)
    }
  }
  trace.compare()
})
