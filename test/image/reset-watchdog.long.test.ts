// A factory reset takes longer than the watchdog of a try waits: the early system stops it.
// Only: npm run test:image
// Needs: x64 boards debs image
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { orElse } from '../../src/lib/errors'
import { root } from '../lib/gateway'
import { Board, MIB, PLACES, until } from './board'

interface Maker {
  baseSystem(root: string, say: (line: string) => void): string
  cpio(entries: [string, number, string | Uint8Array][]): Buffer
}

const board = new Board()
before(() => board.make('hostname=greenhouse-1\n', '240s'))
after(() => board.remove())

test('a factory reset takes longer than the watchdog of a try waits: the early system stops it', async t => {
  const { baseSystem } = (await import(join(root, 'src/build/image/system.mjs'))) as Maker
  const { cpio } = (await import(join(root, 'src/build/image/initramfs.mjs'))) as Maker
  const base = baseSystem(root, () => {})
  const [release] = readdirSync(join(base, 'usr/lib/modules'))
  const module = join(base, `usr/lib/modules/${release}/kernel/drivers/watchdog/softdog.ko.xz`)
  const [kernel, initramfs] = ['kernel8.img', 'initramfs'].map(name => board.takeOut(PLACES.bootA, name))
  // a watchdog that runs before anything uses it, in the place of the one that the firmware of a Raspberry Pi starts
  const first = '#!/bin/busybox sh\n/bin/busybox insmod /softdog.ko soft_active_on_boot=1 soft_margin=20\nexec /init\n'
  const files = cpio([
    ['first', 0o100755, first],
    ['softdog.ko', 0o100644, execFileSync('xz', ['-dc', module], { maxBuffer: MIB })],
  ])
  writeFileSync(`${initramfs}.whole`, Buffer.concat([files, readFileSync(initramfs!)]))
  const words = `${readFileSync(board.takeOut(PLACES.bootA, 'cmdline.txt'), 'utf8').trim()} rdinit=/first watchdog.open_timeout=20`
  const { args, ...other } = board.machine()
  const system = ['-kernel', kernel!, '-initrd', `${initramfs}.whole`, '-append', words, '-no-reboot']
  // erased by zeros, longer than a minute, and the watchdog ends the board after 40 s
  const drive = `${other.drive},discard=ignore,throttling.bps-write=${8 * MIB}`
  board.machine = () => ({ ...other, drive, args: [...args.slice(0, args.indexOf('-bios')), ...system] })
  board.write('factory-reset', '')
  // a partition that is blank needs no zeros
  const card = openSync(board.card, 'r+')
  writeSync(card, 'data', PLACES.data)
  closeSync(card)
  const power = board.power()
  t.after(power.cut)
  const ended = (): boolean => power.ended() || orElse(true, () => board.read('factory-reset') === undefined)
  await until('the end of the reset', () => power.said().includes('factory reset: everything') && ended())
  assert.equal(power.ended(), false, power.said())
})
