// The images of Raspberry Pi 3 and 4 on the emulated board (raspberry.ts): the one by its own U-Boot, the other by a player of the firmware's
// rules, which starts the kernel of the boot partition that autoboot.txt and the flag of the module choose. `npm run test:image`.
// Only: npm run test:image
// Needs: x64 boards debs image sshd
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { BOOT_MS, Board, MIB, PLACES, type Power, until } from './board'
import { NO_WATCHDOG, playFirmware, tryTheOther, ubootMachine, withoutWatchdog } from './raspberry'
import { startUpstream } from './upstream'

async function boardOf(t: TestContext, kind: string): Promise<Board> {
  const board = new Board(kind)
  t.after(() => board.remove())
  // the emulated card writes each block of what mke2fs discards
  board.cardBytes = 512 * MIB
  await board.make(`hostname=greenhouse-1\n${await startUpstream(t)}`, '20min')
  return board
}

/** The token on the console opens the page, which has a reading. A board that gets a network late shows a new token then. */
async function opens(board: Board, power: Power): Promise<void> {
  const token = (): string | undefined => [...power.said().matchAll(/Your token:\s+([\w-]{43})\n/g)].at(-1)?.[1]
  await until('the token', token, 2 * BOOT_MS)
  const reading = async (): Promise<boolean> => {
    const { status, text } = await board.ask('/api/data/packets?limit=1', { token: token()! })
    if (status !== 200) throw new Error(text)
    return /"packet_uuid"/.test(text)
  }
  await until('a reading on the page', reading, 2 * BOOT_MS)
}

/** A start by U-Boot, with the network plugged in. */
async function start(board: Board): Promise<Power> {
  board.noise = true
  const power = board.power()
  await until('the system', () => power.said().includes('Starting kernel'))
  assert.doesNotMatch(power.said(), /stop autoboot/)
  // not before the kernel has the bus: it loses the device that U-Boot saw in this emulator
  await until('the bus', () => /serial0-0: probe|Your token/.test(power.said()), 2 * BOOT_MS)
  await power.tell('device_add usb-net,netdev=n')
  return power
}

const partitionOf = (power: Power): string | undefined => /^os-node: boot partition (\d)$/m.exec(power.said())?.[1]

/** Installs an update; the board then restarts itself. */
async function updated(board: Board, power: Power, from: string): Promise<void> {
  const { text } = await board.shell(`os-node update ${from}`)
  await until('the restart', () => power.ended()).catch(error => {
    throw new Error(`${error.message}\n${text}\n${power.said().slice(-2000)}`)
  })
  await power.cut()
}

const UPDATED = [
  { slot: 'A', version: '1.2.3', running: false, state: 'standby' },
  { slot: 'B', version: '1.2.4', running: true, state: 'active' },
]
/** for Board.update: NO_WATCHDOG in the place of words that no start needs */
const UNWATCHED: [string, string] = ['rootwait systemd.show_status=0', NO_WATCHDOG.padEnd(30)]
/** for Board.update: a system whose kernel panics before it has a driver */
const PANICS: [string, string] = ['ro quiet loglevel=4', 'rdinit=/nothing qu ']

test('Raspberry Pi Zero 2 W: U-Boot starts the watchdog before a trial, and the token of an ordinary start opens the page', async t => {
  const board = await boardOf(t, 'rpi-zero-2-w')
  board.addToCommandLine(PLACES.bootA, NO_WATCHDOG)
  board.machine = () => ubootMachine(board)
  tryTheOther(board)
  const tried = board.power()
  await until('the watchdog that U-Boot started', () => tried.ended())
  assert.equal(partitionOf(tried), '3')
  assert.doesNotMatch(tried.said(), /Starting kernel/)
  await tried.cut()
  const from = performance.now()
  const power = await start(board)
  await opens(board, power)
  assert.equal(partitionOf(power), '2')
  t.diagnostic(`page after ${Math.round((performance.now() - from) / 1000)} s`)
})

// after a panic the same script of U-Boot returns to the old slot: boot.long.test.ts
test('Raspberry Pi 3: U-Boot tries an update, which stays', async t => {
  const board = await boardOf(t, 'rpi-3')
  board.addToCommandLine(PLACES.bootA, NO_WATCHDOG)
  board.machine = () => ubootMachine(board)
  await withoutWatchdog(board)
  const { url, server } = await board.serve([])
  t.after(() => server.close())
  let power = await start(board)
  await opens(board, power)
  assert.equal(partitionOf(power), '2')

  await updated(board, power, `${url}/${board.update('1.2.4', UNWATCHED)}`)
  power = await start(board)
  assert.equal(partitionOf(power), '3')
  const { slots } = await board.slots(({ last_update: last }) => last?.outcome === 'confirmed')
  assert.deepEqual(slots, UPDATED)
})

test('Raspberry Pi 4: an update is tried by the flag and stays; one that panics is rolled back to the old slot', async t => {
  const board = await boardOf(t, 'rpi-4')
  const starts = await playFirmware(board)
  const { url, server } = await board.serve([])
  t.after(() => server.close())
  let power = board.power()
  await opens(board, power)
  assert.equal(starts[0]!.partition, 2)
  assert.deepEqual(starts[0]!.overlays, ['spi0-2cs'])
  assert.equal(starts[0]!.watchdog, undefined)
  const next = async (name: string): Promise<void> => {
    // this emulator does not answer the request of the module
    await board.shell('echo Y >/run/known; mount --bind /run/known /sys/module/os_node_tryboot/parameters/known')
    await updated(board, power, `${url}/${name}`)
    power = board.power()
  }
  const good = board.update('1.2.4')
  const { code, text } = await board.shell(`os-node update ${url}/${good}`)
  assert.deepEqual([code, /the firmware on the card cannot try a slot/.test(text)], [1, true], text)

  await next(good)
  assert.equal(starts[1]!.partition, 3)
  const { slots } = await board.slots(({ last_update: last }) => last?.outcome === 'confirmed')
  assert.deepEqual(slots, UPDATED)

  await next(board.update('1.2.5', PANICS))
  assert.equal(starts[2]!.partition, 2)
  // before the early system runs no driver is loaded that restarts this board; a newer firmware starts the watchdog, which the test plays
  assert.equal(starts[2]!.watchdog, 60)
  await until('the panic', () => /Kernel panic/.test(power.said()))
  await power.cut()
  power = board.power()
  assert.equal(starts[3]!.partition, 3)
  const { slots: back, last_update: last } = await board.slots(one => one.last_update?.outcome === 'rolled back')
  assert.match(last!.reason!, /its system did not start/)
  assert.equal(back.find(({ running }) => running)!.version, '1.2.4')
})
