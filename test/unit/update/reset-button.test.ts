// The reset button: held from the start for ten seconds, or nothing is erased.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { askForReset, type ButtonWorld, heldAtStart } from '../../../src/update/reset-button'
import { tempDir } from '../../lib/gateway'

interface Bench {
  world: ButtonWorld
  said: string[]
  held: [string, number][]
  closed: number
}

/** A button that is grounded at the times (ms) in `pressed`; the chip appears at `chipAt`. */
function bench(pressed: (ms: number) => boolean, { chipAt = 0, label = 'pinctrl-bcm2711' } = {}): Bench {
  let now = 0
  const made: Bench = {
    said: [],
    held: [],
    closed: 0,
    world: {
      chips: () => [
        { path: '/dev/gpiochip0', label: 'raspberrypi-exp-gpio' },
        ...(now >= chipAt ? [{ path: '/dev/gpiochip1', label }] : []),
      ],
      hold: async (chip, line) => {
        made.held.push([chip, line])
        return { pressed: async () => pressed(now), close: async () => void made.closed++ }
      },
      sleep: async ms => {
        now += ms
      },
      say: text => made.said.push(text),
    },
  }
  return made
}

test('ten seconds without a break are a reset, on the chip that has the pins, also one that appears late', async () => {
  for (const label of ['pinctrl-bcm2835', 'pinctrl-bcm2711', 'pinctrl-rp1']) {
    const made = bench(() => true, { label, chipAt: 5000 })
    assert.equal(await heldAtStart(made.world, 21), true)
    assert.deepEqual(made.held, [['/dev/gpiochip1', 21]])
    assert.equal(made.closed, 1)
    assert.match(made.said.join(), /everything on this board is erased in 10 s/)
  }
})

test('a button that is not held, or is released at the last moment, erases nothing, and the line is free again', async () => {
  const up = bench(() => false)
  assert.equal(await heldAtStart(up.world, 21), false)
  assert.deepEqual([up.said, up.closed], [[], 1])
  const short = bench(ms => ms < 10_000)
  assert.equal(await heldAtStart(short.world, 21), false)
  assert.match(short.said.join('\n'), /released: nothing is erased/)
  assert.equal(short.closed, 1)
  const broken = bench(ms => ms !== 5100)
  assert.equal(await heldAtStart(broken.world, 21), false)
})

test('a board without such a chip, and a line in use by another program, are reported', async () => {
  const none = bench(() => true, { label: 'other' })
  await assert.rejects(heldAtStart(none.world, 21), /reset_button: this board has no GPIO chip pinctrl-bcm2835 or /)
  assert.equal(await heldAtStart(bench(() => true, { label: 'other' }).world, 5, 'other'), true)
  const busy = bench(() => true)
  busy.world.hold = () => Promise.reject(new OsError('PORT_BUSY', 'line 21 is in use'))
  await assert.rejects(heldAtStart(busy.world, 21), /GPIO21 cannot be read: line 21 is in use/)
})

test('the early boot stage also reads the file that os-node.conf is converted to', () => {
  const dir = tempDir()
  askForReset(dir)
  assert.equal(readFileSync(join(dir, 'factory-reset'), 'utf8'), 'all\n')
})
