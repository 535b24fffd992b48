// The emulator's Raspberry Pi 3, in place of the boards whose images are tested. It has no firmware, so the test plays it (boot-sim.ts); no
// SPI, radio or Ethernet, so the network is a USB adapter; and its watchdog restarts the board immediately, so the system does not use it, nor
// U-Boot where a trial shall start.
import { execFileSync } from 'node:child_process'
import {
  closeSync,
  copyFileSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { orElse } from '../../src/lib/errors'
import { sectorChooser } from '../../src/update/slot-chooser'
import { root } from '../lib/gateway'
import { type Board, type Machine, PLACES } from './board'
import { cardReader, type Start, startOf } from './boot-sim'

/** for the kernel: pid 1 does not use the watchdog */
export const NO_WATCHDOG = 'systemd.watchdog_sec=0'
/** the emulator's log line when the module of board/tryboot requests a trial */
const ASKS_FOR_TRY = 'unhandled tag 0x00038064'
/** the board's model, by its image */
const MODELS: Readonly<Record<string, string>> = {
  'rpi-3': 'bcm2837-rpi-3-b.dtb',
  'rpi-zero-2-w': 'bcm2837-rpi-zero-2-w.dtb',
}

const raspi = (...args: string[]): string[] => {
  const machine = ['-M', 'raspi3b', '-accel', 'tcg,thread=single', '-display', 'none', '-no-reboot']
  return [...machine, '-serial', 'null', '-serial', 'stdio', ...args]
}

const reader = (board: Board) => cardReader(board.card, { 1: PLACES.start, 2: PLACES.bootA, 3: PLACES.bootB })

/** The firmware of a Raspberry Pi 3 or Zero 2 W: it starts U-Boot from the start partition. The adapter must be plugged in when the kernel runs. */
export function ubootMachine(board: Board): Machine {
  const read = reader(board)
  const config = read(1, 'config.txt')!.toString()
  const kernel = /^kernel=(.*)$/m.exec(config)![1]!
  const files = [kernel, MODELS[board.kind]!].map(name => {
    const path = join(board.place, name)
    writeFileSync(path, read(1, name)!)
    return path
  })
  return { args: raspi('-kernel', files[0]!, '-dtb', files[1]!), drive: 'if=sd', devices: [] }
}

/** The next start tries slot B, with the boot partition of slot A. In a try U-Boot starts the watchdog, and this emulator's ends immediately. */
export function tryTheOther(board: Board): void {
  const card = openSync(board.card, 'r+')
  const boot = Buffer.alloc(PLACES.bootB - PLACES.bootA)
  readSync(card, boot, 0, boot.length, PLACES.bootA)
  writeSync(card, boot, 0, boot.length, PLACES.bootB)
  closeSync(card)
  sectorChooser(2, board.card).tryOnce(3)
}

/** From now on U-Boot starts a trial without the watchdog. */
export async function withoutWatchdog(board: Board): Promise<void> {
  const load = (name: string): Promise<unknown> => import(join(root, 'src/build/image', name))
  const { bootScript } = (await load('index.mjs')) as { bootScript(root: string, addresses: object): Buffer }
  const { IMAGE_BOARDS } = (await load('boards.mjs')) as { IMAGE_BOARDS: Record<string, { addresses: object }> }
  board.write('boot.scr', bootScript(root, { ...IMAGE_BOARDS[board.kind]!.addresses, wdog: '' }))
}

/** The device tree of the emulated board, with its card where that of a Raspberry Pi 4 is, and an EEPROM that is new enough. */
async function treeFor(board: Board): Promise<string> {
  const { baseSystem } = (await import(join(root, 'src/build/image/system.mjs'))) as {
    baseSystem(root: string, say: (line: string) => void): string
  }
  const base = baseSystem(root, () => {})
  const [release] = readdirSync(join(base, 'usr/lib/modules'))
  const tree = join(board.place, 'tree.dtb')
  copyFileSync(join(base, 'usr/lib', `linux-image-${release}`, 'broadcom', MODELS['rpi-3']!), tree)
  const put = (...args: string[]): string => execFileSync('fdtput', args, { encoding: 'utf8' })
  const [card, other] = ['/soc/mmc@7e300000', '/soc/mmc@7e202000'] as const
  const pins = execFileSync('fdtget', [tree, '/soc/gpio@7e200000/emmc-gpio48', 'phandle'], { encoding: 'utf8' }).trim()
  put(tree, card, 'pinctrl-0', pins)
  put('-d', tree, card, 'non-removable', 'mmc-pwrseq')
  put('-t', 's', tree, other, 'status', 'disabled')
  put('-p', '-t', 'x', tree, '/chosen/bootloader', 'build-timestamp', '63400000')
  return tree
}

/** The firmware of a Raspberry Pi 4: at each start of `board` it chooses the boot partition, whose kernel the emulator runs. Returns its starts. */
export async function playFirmware(board: Board): Promise<Start[]> {
  const tree = await treeFor(board)
  const log = join(board.place, 'emulator.log')
  const starts: Start[] = []
  board.machine = () => {
    const flag = orElse(false, () => readFileSync(log, 'latin1').includes(ASKS_FOR_TRY))
    const read = reader(board)
    const start = startOf(read, { flag })
    if (!start) throw new Error('the firmware finds nothing to start')
    starts.push(start)
    const file = (name: string): string => {
      const path = join(board.place, name)
      writeFileSync(path, read(start.partition, name)!)
      return path
    }
    const system = ['-kernel', file(start.kernel), '-initrd', file(start.initramfs!), '-dtb', tree]
    const args = raspi(...system, '-append', `${start.commandLine} ${NO_WATCHDOG}`, '-d', 'unimp', '-D', log)
    return { args, drive: 'if=sd', devices: ['usb-net,netdev=n'] }
  }
  return starts
}
