// The slot that the firmware of a Raspberry Pi starts: autoboot.txt on the start partition names the boot partition of every
// start, and that of one try. The firmware tries if a flag is set at a restart, which only the module of board/tryboot can
// set; a panic, the watchdog or a power cut does not set it, so the start after a try is an ordinary one.
//
// autoboot.txt is overwritten in place and keeps its length, so that a power cut leaves the old or the new text: it is one
// sector.
// Errors: the module is not loaded, or the firmware or its EEPROM does not support the flag: `refusal` returns which.
import { execFileSync } from 'node:child_process'
import { closeSync, fsyncSync, ftruncateSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { orElse } from '../lib/errors'
import type { Chooser } from './slot-chooser'

const FILE = '/boot/autoboot.txt'
const MODULE = '/sys/module/os_node_tryboot/parameters'
/** build time of the EEPROM program: UNIX seconds, big-endian */
const BUILT = '/proc/device-tree/chosen/bootloader/build-timestamp'
/** earlier programs support neither [tryboot] nor tryboot_a_b in autoboot.txt */
const FIRST_BUILT = Date.UTC(2022, 9, 1) / 1000

/** The content of autoboot.txt: the partition of every start, and that of a try. */
export function parseAutoboot(text: string): { active?: number; trying?: number } {
  const found: Record<string, number> = {}
  let section = 'all'
  for (const line of text.split(/\r?\n/)) {
    section = /^\s*\[(\w+)\]/.exec(line)?.[1] ?? section
    const partition = /^\s*boot_partition\s*=\s*(\d+)/.exec(line)?.[1]
    if (partition) found[section] = Number(partition)
  }
  return { active: found.all, trying: found.tryboot }
}

export const autobootOf = (active: number, trying: number): string =>
  `[all]\ntryboot_a_b=1\nboot_partition=${active}\n[tryboot]\nboot_partition=${trying}\n`

/** The start partition is mounted read-only. */
function remount(how: 'rw' | 'ro'): void {
  execFileSync('mount', ['-o', `remount,${how}`, '/boot'], { stdio: 'ignore' })
}

/** The firmware's selection. Only `first`, the partition of slot A, is not for tests. */
export function firmwareChooser(first: number, file = FILE, module = MODULE, built = BUILT, mount = remount): Chooser {
  const parameter = (name: string): string => orElse('', () => readFileSync(join(module, name), 'latin1').trim())

  function read(): { active: number; trying: number } {
    const { active = first, trying = 0 } = parseAutoboot(orElse('', () => readFileSync(file, 'latin1')))
    return { active, trying: parameter('armed') === 'Y' ? trying : 0 }
  }

  function write(active: number, trying: number): void {
    mount('rw')
    try {
      const text = autobootOf(active, trying)
      const fd = openSync(file, 'r+')
      try {
        writeSync(fd, text, 0, 'latin1')
        ftruncateSync(fd, text.length)
        fsyncSync(fd)
      } finally {
        closeSync(fd)
      }
    } finally {
      mount('ro')
    }
  }

  return {
    keepsTry: false,
    refusal() {
      const known = parameter('known')
      if (known === '')
        return ['the kernel module os_node_tryboot is not loaded', 'systemctl status os-node-tryboot shows why']
      if (known !== 'Y')
        return ['the firmware on the card cannot try a slot', 'write a new image to the card; docs/flash.md says how']
      const stamp = orElse(undefined, () => readFileSync(built))
      const at = stamp?.length === 4 ? stamp.readUInt32BE() : 0
      if (at >= FIRST_BUILT) return undefined
      const age = at === 0 ? 'of unknown age' : `of ${new Date(at * 1000).toISOString().slice(0, 10)}`
      return [
        `the EEPROM of this board is ${age} and cannot try a slot`,
        'update it to one of October 2022 or later, with the bootloader image of Raspberry Pi Imager',
      ]
    },
    read,
    tryOnce(trying) {
      write(read().active, trying)
      writeFileSync(join(module, 'armed'), 'Y')
    },
    activate(active, other) {
      write(active, other)
    },
  }
}
