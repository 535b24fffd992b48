// A button between a GPIO and ground that is held during the start triggers a factory reset: it creates the file
// `factory-reset` on the start partition, which the early system handles at the next start. The line is not watched later: a
// sensor that pulls it down then is no button.
// Errors: CONFIG_INVALID (no such GPIO), LINK_DOWN (another program uses it, no addon).
import { execFileSync } from 'node:child_process'
import { closeSync, fsyncSync, openSync, readdirSync, writeFileSync } from 'node:fs'
import { asOsError, OsError, orElse } from '../lib/errors'
import { sleep, systemTimers } from '../lib/timers'
import { GpioChip, GpioLines } from '../native/gpio'

/** Raspberry Pi's own GPIO chips, whose line numbers are the GPIO numbers. */
const OWN_CHIPS: readonly string[] = ['pinctrl-bcm2835', 'pinctrl-bcm2711', 'pinctrl-rp1']
/** long enough to ignore a knock on the housing */
const HELD_S = 10
const LOOK_MS = 100
/** how long to wait for the chip, whose driver may be loaded late */
const CHIP_S = 20

interface Chip {
  path: string
  label: string
}

/** What the button needs; tests replace it. */
export interface ButtonWorld {
  chips(): Chip[]
  /** Requests the line with a pull-up: each call returns whether it is at ground. */
  hold(chip: string, line: number): Promise<{ pressed(): Promise<boolean>; close(): Promise<void> }>
  sleep(ms: number): Promise<void>
  say(text: string): void
}

/**
 * Whether the button is held without interruption. `label`: another chip than the board's own. Rejects CONFIG_INVALID,
 * LINK_DOWN.
 */
export async function heldAtStart(world: ButtonWorld, gpio: number, label?: string): Promise<boolean> {
  const labels = label === undefined ? OWN_CHIPS : [label]
  const find = (): Chip | undefined => world.chips().find(chip => labels.includes(chip.label))
  let chip = find()
  for (let waited = 0; !chip && waited < CHIP_S; waited++) {
    await world.sleep(1000)
    chip = find()
  }
  if (!chip)
    throw new OsError('CONFIG_INVALID', `reset_button: this board has no GPIO chip ${labels.join(' or ')}`, {
      hint: 'remove reset_button from os-node.conf; the file factory-reset does the same',
    })
  const line = await world.hold(chip.path, gpio).catch(cause => {
    throw new OsError('LINK_DOWN', `reset_button: GPIO${gpio} cannot be read: ${asOsError(cause).message}`, {
      cause,
      hint: 'use a GPIO that nothing else uses',
    })
  })
  try {
    // the pull-up needs a moment
    await world.sleep(LOOK_MS)
    if (!(await line.pressed())) return false
    world.say(`The reset button is held: everything on this board is erased in ${HELD_S} s. Release it to keep it.`)
    for (let held = 0; held < HELD_S * 1000; held += LOOK_MS) {
      await world.sleep(LOOK_MS)
      if (!(await line.pressed())) {
        world.say('The reset button was released: nothing is erased.')
        return false
      }
    }
    return true
  } finally {
    await line.close()
  }
}

/** The kernel's chips. One that disappears during the query is left out. */
function kernelChips(): Chip[] {
  return readdirSync('/dev')
    .filter(name => /^gpiochip\d+$/.test(name))
    .flatMap(name =>
      orElse<Chip[], Chip[]>([], () => {
        const chip = GpioChip.open(`/dev/${name}`)
        const { label } = chip.info()
        chip.close()
        return [{ path: chip.path, label }]
      }),
    )
}

export const kernelButton = (say: (text: string) => void): ButtonWorld => ({
  chips: kernelChips,
  hold: async (path, line) => {
    const lines = await GpioLines.request(path, {
      lines: [line],
      direction: 'input',
      bias: 'pull_up',
      active_low: true,
      consumer: 'reset button',
    })
    return { pressed: async () => (await lines.values()) === 1, close: () => lines.close() }
  },
  sleep: ms => sleep(systemTimers, ms),
  say,
})

/**
 * Requests that the early system erases everything, including os-node.conf.
 */
export function askForReset(folder = '/boot'): void {
  if (folder === '/boot') execFileSync('mount', ['-o', 'remount,rw', folder])
  const file = openSync(`${folder}/factory-reset`, 'w')
  writeFileSync(file, 'all\n')
  fsyncSync(file)
  closeSync(file)
  if (folder === '/boot') execFileSync('mount', ['-o', 'remount,ro', folder])
}
