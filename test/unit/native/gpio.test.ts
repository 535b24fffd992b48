// The addon's GPIO where there is no chip (every call is an error), and on a chip preloaded before the C library
// (fake-gpio.c), with sanitizers when those are loaded: also one that hangs, which no chip of the tests' kernel does.
// Needs: cc
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { native, nativeOrNull } from '../../../src/native'
import type { Descriptor } from '../../../src/native/addon'
import { GpioChip, GpioLines } from '../../../src/native/gpio'
import { until } from '../../lib/gateway'
import { heldClock } from '../../lib/hanging'
import { isPreloaded, testPreloaded } from '../../lib/preload'

const EINVAL = -22
const FAKE = 'test/unit/native/fake-gpio.c'
const CHIP = '/fake/gpio'
const skip = nativeOrNull() ? false : 'this machine has no C compiler'
const errnoIs = (name: string) => (error: unknown) => error instanceof OsError && error.details.errno === name
const codeIs = (code: string) => (error: unknown) => error instanceof OsError && error.code === code
const descriptors = (): number => readdirSync('/proc/self/fd').length

const without = (): void => {
  test('a path that is no chip gives the error of the kernel', { skip }, async () => {
    const asked = { lines: [0], direction: 'input', consumer: 'x' } as const
    for (const [path, errno] of [
      ['/dev/null', 'ENOTTY'],
      ['/dev/no-such-chip', 'ENOENT'],
    ] as const) {
      assert.throws(() => GpioChip.open(path), errnoIs(errno))
      await assert.rejects(GpioLines.request(path, asked), errnoIs(errno))
    }
    assert.throws(() => GpioChip.open('x'.repeat(300)), errnoIs('EINVAL'))
    await assert.rejects(GpioLines.request('x'.repeat(5000), asked), errnoIs('EINVAL'))
  })

  test('wrong arguments are refused, whatever they are', { skip }, () => {
    const { addon: gpio } = native()
    const buses = gpio
    const bytes = new Uint8Array(64)
    const words = new Uint32Array(12)
    const bus = buses.busStart() as never
    for (const none of [undefined, null, 7, {}, 'x'] as unknown as Descriptor[]) {
      assert.equal(gpio.gpioChipInfo(none, bytes), EINVAL)
      assert.equal(gpio.gpioLineInfo(none, 0, bytes), EINVAL)
      assert.equal(gpio.gpioRequest(none as never, '/dev/null', words, 4, 0, bytes, 0, 'x'), EINVAL)
      assert.equal(gpio.gpioRequest(bus, none as never, none as never, 4, 0, bytes, 0, 'x'), EINVAL)
      assert.equal(gpio.gpioRead(bus, none, 1), EINVAL)
      assert.equal(gpio.gpioRead(none as never, none, 1), EINVAL)
      assert.equal(gpio.gpioSet(bus, none, 0, 1), EINVAL)
      assert.equal(gpio.gpioRelease(bus, none), EINVAL)
      assert.equal(gpio.readGpioEvents(none, words), EINVAL)
      assert.equal(buses.busFile(none as never, 0), EINVAL)
    }
    assert.equal(buses.busFile(bus, 0), -9)
    buses.busClose(bus)
  })
}

const inside = (): void => {
  test('a chip and its lines are listed, also names of full length', async t => {
    heldClock(t)
    const chip = GpioChip.open(CHIP)
    assert.deepEqual(chip.info(), { name: 'gpiochip7', label: 'fake', lines: 8 })
    const held = await GpioLines.request(CHIP, { lines: [2], direction: 'output', consumer: 'ü'.repeat(31) })
    const { name, consumer, used, direction } = chip.line(2)
    assert.deepEqual([name, consumer, used, direction], ['N'.repeat(32), 'ü'.repeat(15), true, 'output'])
    assert.throws(() => chip.line(8), errnoIs('EINVAL'))
    await held.close()
    assert.equal(chip.line(2).used, false)
    chip.close()
  })

  test('lines are requested, set, read, and released', async t => {
    heldClock(t)
    const before = descriptors()
    const out = await GpioLines.request(CHIP, { lines: [0, 2], direction: 'output', initial: [1, 0], consumer: 'a' })
    const seen = await GpioLines.request(CHIP, { lines: [3, 1], direction: 'input', consumer: 'b' })
    assert.equal(await seen.values(), 0b10)
    await out.set(1, 1)
    await out.set(0, 0)
    assert.deepEqual([await seen.values(), await out.values()], [0b01, 0b10])
    const asked = { lines: [0], direction: 'input', consumer: 'c' } as const
    await assert.rejects(GpioLines.request(CHIP, asked), codeIs('PORT_BUSY'))
    await assert.rejects(GpioLines.request(CHIP, { ...asked, lines: [8] }), errnoIs('EINVAL'))
    await assert.rejects(GpioLines.request(CHIP, { ...asked, lines: [] }), errnoIs('EINVAL'))
    await assert.rejects(GpioLines.request(CHIP, { ...asked, lines: [4], bias: 'disabled' }), codeIs('UNSUPPORTED'))
    // released on request, and earlier calls are answered
    const last = Promise.all([out.values(), out.set(0, 1), seen.values()])
    await Promise.all([out.close(), out.close(), seen.close()])
    assert.deepEqual(await last, [0b10, undefined, 0b11])
    await assert.rejects(out.values(), errnoIs('EBADF'))
    await assert.rejects(out.set(0, 1), errnoIs('EBADF'))
    const again = await GpioLines.request(CHIP, asked)
    await again.close()
    assert.equal(descriptors(), before)
  })

  test('edges arrive with their kind, line and number; dropped ones are counted', async t => {
    heldClock(t)
    const out = await GpioLines.request(CHIP, { lines: [4], direction: 'output', consumer: 'a' })
    const held = await GpioLines.request(CHIP, { lines: [5], direction: 'input', edges: 'both', consumer: 'b' })
    const told: string[] = []
    let wrong = 0
    let last = 0
    held.onEdges(edges => {
      for (let k = 0; k < edges.count; k++) {
        told.push(`${edges.line(k)}${edges.rising(k) ? '+' : '-'}${edges.seqno(k)}`)
        if (edges.ns(k) < last) wrong++
        last = edges.ns(k)
      }
    })
    for (let k = 1; k <= 300; k++) await out.set(0, k % 2 === 1 ? 1 : 0)
    await until('all are told', () => told.length === 300)
    assert.deepEqual([told[0], told[1], told[299], wrong, held.missed], ['5+1', '5-2', '5-300', 0, 0])
    // more than are queued until a listener is added
    const other = await GpioLines.request(CHIP, { lines: [2], direction: 'output', consumer: 'd' })
    const deaf = await GpioLines.request(CHIP, { lines: [3], direction: 'input', edges: 'both', consumer: 'c' })
    for (let k = 1; k <= 1500; k++) await other.set(0, k % 2 === 1 ? 1 : 0)
    let heard = 0
    deaf.onEdges(edges => {
      heard += edges.count
    })
    await until('kept records are reported', () => heard > 1000)
    await other.set(0, 1)
    await until('the next one too', () => heard + deaf.missed === 1501)
    assert.ok(deaf.missed > 0)
    await Promise.all([deaf.close(), other.close()])
    await Promise.all([held.close(), out.close()])
  })

  test('requests for more lines than calls fit do not wait: the excess is refused immediately', async t => {
    heldClock(t)
    const held = await GpioLines.request(CHIP, { lines: [0], direction: 'output', consumer: 'a' })
    const calls = await Promise.allSettled(Array.from({ length: 100 }, () => held.values()))
    const refused = calls.filter(call => call.status === 'rejected')
    assert.equal(refused.length, 36)
    assert.ok(refused.every(({ reason }) => codeIs('BUS_BUSY')(reason)))
    await held.close()
  })

  // the last: the chip hangs
  test('a chip that hangs blocks no caller: reported by the deadline, refused until it returns, and nothing is left behind', async t => {
    const dir = mkdtempSync(join(tmpdir(), 'os-node-gpio-'))
    t.after(() => rmSync(dir, { recursive: true }))
    const hangs = join(dir, 'hangs')
    process.env.FAKE_GPIO_HANGS = hangs
    const clock = heldClock(t)
    /** `call` times out while the chip is working on it. */
    const givenUp = async (call: Promise<unknown>): Promise<void> => {
      const told = assert.rejects(call, codeIs('TIMEOUT'))
      await until('the chip hangs, and this loop turns', () => existsSync(hangs))
      clock.pass(101)
      await told
    }
    const before = descriptors()
    const slow = await GpioLines.request(CHIP, { lines: [7], direction: 'input', consumer: 'a' })
    const fine = await GpioLines.request(CHIP, { lines: [0], direction: 'input', consumer: 'fine' })
    await givenUp(slow.values(100))
    await assert.rejects(fine.values(), codeIs('BUS_STUCK'))
    const asked = { lines: [2], direction: 'input', consumer: 'x' } as const
    await assert.rejects(GpioLines.request(CHIP, asked), codeIs('BUS_STUCK'))
    // released after the call, though no caller waits for it
    const closing = Promise.all([slow.close(), fine.close()])
    rmSync(hangs)
    await closing
    const again = await GpioLines.request(CHIP, { ...asked, lines: [7, 0] })
    await again.close()
    // lines that arrive after their caller timed out are released
    await givenUp(GpioLines.request(CHIP, { ...asked, lines: [6], consumer: 'slow' }, 50))
    rmSync(hangs)
    const chip = GpioChip.open(CHIP)
    await until('the late request was granted', () => chip.line(6).used || descriptors() === before + 1)
    await until('all lines are free', () => [0, 2, 6, 7].every(line => !chip.line(line).used))
    chip.close()
    await until('no descriptor is left', () => descriptors() <= before)
  })
}

if (isPreloaded(FAKE)) inside()
else {
  without()
  testPreloaded(FAKE, 5)
}
