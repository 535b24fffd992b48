// A Raspberry Pi whose firmware chooses the slot: autoboot.txt and the tryboot flag, played by the rules of the firmware.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { autobootOf, firmwareChooser, parseAutoboot } from '../../../src/update/firmware'
import { openSlots, type Slots } from '../../../src/update/slots'
import {
  beginTrial,
  confirm,
  giveUp,
  LastUpdates,
  noteRestart,
  onTrial,
  settle,
  wasRolledBack,
} from '../../../src/update/trial'
import { type Reader, startOf } from '../../image/boot-sim'
import { tempDir } from '../../lib/gateway'

const CONFIG =
  'kernel=kernel8.img\ninitramfs initramfs followkernel\n[cm4]\ndtoverlay=uart3\n[all]\ndtoverlay=spi0-2cs\n'
const OCTOBER_2022 = Date.UTC(2022, 9, 1) / 1000

/** A board with a card; `restart`: what its firmware starts, using the module. */
class Pi {
  readonly dir = tempDir()
  readonly mounts: string[] = []
  slots!: Slots

  constructor({ known = 'Y', built = OCTOBER_2022 }: { known?: string; built?: number } = {}) {
    writeFileSync(this.#at('autoboot.txt'), autobootOf(2, 3))
    mkdirSync(this.#at('module'))
    const stamp = Buffer.alloc(4)
    stamp.writeUInt32BE(built)
    writeFileSync(this.#at('built'), stamp)
    if (known) writeFileSync(this.#at('module/known'), `${known}\n`)
    this.#run(2)
  }

  get autoboot(): string {
    return readFileSync(this.#at('autoboot.txt'), 'latin1')
  }

  get updates(): LastUpdates {
    return new LastUpdates(this.#at('last.json'))
  }

  /** The slot after a restart; `ordered`: not by a panic, a hang or a power cut. */
  restart(ordered: boolean): string {
    const flag = ordered && readFileSync(this.#at('module/armed'), 'latin1') === 'Y'
    const start = startOf(this.#read, { flag })
    this.#run(start!.partition)
    settle(this.slots, this.updates, 7)
    return this.slots.running.name
  }

  readonly #read: Reader = (partition, name) => {
    if (name === 'autoboot.txt') return partition === 1 ? Buffer.from(this.autoboot) : undefined
    return partition === 1 ? undefined : Buffer.from(name === 'config.txt' ? CONFIG : `${name} of ${partition}`)
  }

  #run(partition: number): void {
    writeFileSync(this.#at('module/armed'), 'N\n')
    const line = `os_node.disk=id os_node.partition=${partition + 3} os_node.chooser=firmware os_node.board=rpi-4`
    writeFileSync(this.#at('cmdline'), `${line} os_node.version=1.0.${partition} os_node.built=9\n`)
    this.slots = openSlots(this.#at('cmdline'), this.#at('devices'), '', first =>
      firmwareChooser(first, this.#at('autoboot.txt'), this.#at('module'), this.#at('built'), how =>
        this.mounts.push(how),
      ),
    )
  }

  #at(name: string): string {
    return join(this.dir, name)
  }
}

/** A board with an update in slot B that the next start tries. */
function updated(): Pi {
  const pi = new Pi()
  const installed = {
    version: '1.0.3',
    built_at: 9,
    from: '1.0.2',
    slot: 'B' as const,
    bytes: 0,
    fetched_bytes: 0,
    copied_bytes: 0,
  }
  beginTrial(pi.slots, pi.updates, installed, 5)
  return pi
}

test('an update is tried at the next ordered restart, and stays once it is confirmed', () => {
  const pi = updated()
  assert.deepEqual(pi.slots.choice(), { active: 'A', trying: 'B' })
  assert.equal(pi.restart(true), 'B')
  assert.equal(onTrial(pi.slots), true)
  assert.equal(confirm(pi.slots, pi.updates, 8), true)
  assert.equal(pi.updates.read()!.outcome, 'confirmed')
  assert.equal(pi.autoboot, autobootOf(3, 2))
  for (const ordered of [true, false]) assert.equal(pi.restart(ordered), 'B')
  assert.deepEqual(pi.slots.choice(), { active: 'B' })
  // the start partition is read-only in between
  assert.deepEqual(pi.mounts, ['rw', 'ro', 'rw', 'ro'])
})

test('a version that hangs, panics or reports failure is rolled back, and so is one with a power cut before the trial', () => {
  for (const ordered of [true, false]) {
    const pi = updated()
    assert.equal(pi.restart(true), 'B')
    if (ordered) giveUp(pi.slots, pi.updates, 9)
    assert.equal(pi.restart(ordered), 'A')
    assert.equal(pi.updates.read()!.outcome, 'rolled back')
  }
  const pi = updated()
  assert.equal(pi.restart(false), 'A')
  assert.equal(pi.updates.read()!.outcome, 'rolled back')
  assert.deepEqual(pi.slots.choice(), { active: 'A' })
})

test('an update whose trial a power cut prevented may be installed again automatically, one that failed may not', () => {
  const tried = { version: '1.0.3', built_at: 9 }
  const cut = updated()
  assert.equal(cut.restart(false), 'A')
  assert.match(cut.updates.read()!.reason!, /power was cut before its trial/)
  assert.equal(wasRolledBack(cut.updates, tried), false)
  const panicked = updated()
  noteRestart(panicked.updates)
  assert.equal(panicked.restart(true), 'B')
  assert.equal(panicked.restart(false), 'A')
  assert.equal(wasRolledBack(panicked.updates, tried), true)
})

test('a board that cannot try a slot says why', () => {
  const refused = (options: ConstructorParameters<typeof Pi>[0]) => new Pi(options).slots.refusal()?.[0]
  assert.equal(refused({ known: '' }), 'the kernel module os_node_tryboot is not loaded')
  assert.equal(refused({ known: 'N' }), 'the firmware on the card cannot try a slot')
  assert.equal(refused({ built: 0 }), 'the EEPROM of this board is of unknown age and cannot try a slot')
  assert.equal(refused({ built: OCTOBER_2022 - 1 }), 'the EEPROM of this board is of 2022-09-30 and cannot try a slot')
  assert.equal(refused({}), undefined)
})

test('autoboot.txt keeps its length, and is read as a user may have edited it', () => {
  assert.equal(autobootOf(2, 3).length, autobootOf(3, 2).length)
  assert.deepEqual(parseAutoboot(autobootOf(3, 2)), { active: 3, trying: 2 })
  assert.deepEqual(parseAutoboot('boot_partition = 3\r\n[tryboot]\r\nboot_partition=2'), { active: 3, trying: 2 })
  assert.deepEqual(parseAutoboot('[all]\ntryboot_a_b=1\n'), { active: undefined, trying: undefined })
})

test('the firmware: sections, a trial without tryboot_a_b, the limit of autoboot.txt, a partition without system', () => {
  const files = new Map<string, string>()
  const read: Reader = (partition, name) => {
    const text = files.get(`${partition}/${name}`)
    return text === undefined ? undefined : Buffer.from(text)
  }
  for (const partition of [1, 2, 3])
    for (const name of ['start4.elf', 'kernel8.img']) files.set(`${partition}/${name}`, 'x')
  files.set('2/config.txt', CONFIG)
  files.set('2/cmdline.txt', 'console=tty1 \n')
  files.set('1/config.txt', '')
  files.set('1/tryboot.txt', 'kernel=start4.elf')
  const start = (flag: boolean, model?: string) => startOf(read, { flag, ...(model && { model }) })
  assert.deepEqual(start(false)?.partition, 1)
  assert.deepEqual(start(true), { partition: 1, kernel: 'start4.elf', commandLine: '', overlays: [] })
  files.set('1/autoboot.txt', autobootOf(2, 3))
  const two = { partition: 2, kernel: 'kernel8.img', initramfs: 'initramfs', commandLine: 'console=tty1' }
  assert.deepEqual(start(false), { ...two, overlays: ['spi0-2cs'] })
  assert.deepEqual(start(false, 'cm4'), { ...two, overlays: ['uart3', 'spi0-2cs'] })
  assert.equal(start(true), undefined)
  files.set('3/cmdline.txt', 'quiet')
  files.set('3/config.txt', `${CONFIG}[tryboot]\nkernel_watchdog_timeout=60\n[all]\n`)
  const { watchdog, commandLine } = start(true)!
  assert.deepEqual([watchdog, commandLine], [60, 'quiet watchdog.open_timeout=60'])
  files.delete('2/start4.elf')
  assert.equal(start(false), undefined)
  assert.deepEqual(start(false, 'pi5'), { ...two, overlays: ['spi0-2cs'] })
  files.set('1/autoboot.txt', `#${' '.repeat(511)}\nboot_partition=2\n`)
  assert.deepEqual(start(false)?.partition, 1)
})
