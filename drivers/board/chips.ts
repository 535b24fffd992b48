// The GPIO chips of this machine. Their numbers change with the kernel and the order of plugging (the header of a
// Raspberry Pi 5 is gpiochip4 on some kernels and gpiochip0 on others), so a chip is identified by its label. Errors:
// no chip at all (NOT_FOUND), no right to open any (FORBIDDEN with the group to join), no addon (E_NO_ADDON).
import { readdirSync, realpathSync } from 'node:fs'
import { asOsError, OsError } from '../../src/lib/errors'
import { GpioChip } from '../../src/native/gpio'

export interface Chip {
  /** /dev/gpiochip0 */
  readonly path: string
  /** gpiochip0 */
  readonly name: string
  readonly label: string
  readonly lines: number
}

const CHIP_FILE = /^gpiochip\d+$/

/** Every chip that can be opened, by number. Throws NOT_FOUND, FORBIDDEN, E_NO_ADDON if there is none. */
export function findChips(dev = '/dev'): Chip[] {
  // an alias of a chip is a link (udev keeps gpiochip4 for old programs)
  const paths = new Set(
    readdirSync(dev)
      .filter(name => CHIP_FILE.test(name))
      .map(name => realpathSync(`${dev}/${name}`)),
  )
  const chips: Chip[] = []
  let failure: OsError | undefined
  for (const path of [...paths].sort((a, b) => a.length - b.length || (a < b ? -1 : 1))) {
    try {
      const chip = GpioChip.open(path)
      chips.push({ path, ...chip.info() })
      chip.close()
    } catch (error) {
      failure ??= withoutRight(asOsError(error), path)
    }
  }
  if (chips.length > 0) return chips
  throw (
    failure ??
    new OsError('NOT_FOUND', 'this machine has no GPIO chip', {
      hint: 'use a kernel with CONFIG_GPIO_CDEV: ls /dev/gpiochip*',
    })
  )
}

/** Replaces the error of a device that this user may not open with one that says what to do. */
export function withoutRight(error: OsError, path: string, group = 'gpio'): OsError {
  if (error.details.errno !== 'EACCES' && error.details.errno !== 'EPERM') return error
  return new OsError('FORBIDDEN', `${path}: this user has no right to open it`, {
    cause: error,
    hint: `join the group of the device: sudo usermod -aG ${group} $USER, then log in again`,
  })
}

/** Offset of the line with that name on a chip, or null. */
export function lineNamed(path: string, name: string): number | null {
  const chip = GpioChip.open(path)
  try {
    const { lines } = chip.info()
    for (let line = 0; line < lines; line++) if (chip.line(line).name === name) return line
    return null
  } finally {
    chip.close()
  }
}
