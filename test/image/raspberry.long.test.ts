// The images of Raspberry Pi 3 and 4 on the emulated board (raspberry.ts): the one by its own U-Boot, the other by a player of the firmware's
// rules, which starts the kernel of the boot partition that autoboot.txt and the flag of the module choose. `npm run test:image`.
// Only: npm run test:image
// Needs: x64 boards debs image sshd
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { BOOT_MS, Board, PLACES, type Power, until } from './board'
import { NO_WATCHDOG, playFirmware, tryTheOther, ubootMachine } from './raspberry'

async function boardOf(t: TestContext, kind: string): Promise<Board> {
  const board = new Board(kind)
  t.after(() => board.remove())
  await board.make('hostname=greenhouse-1\n', '20min')
  return board
}

/** The token on the console opens the page. */
async function opens(board: Board, power: Power): Promise<void> {
  const token = await until('the token', () => /Your token:\s+([\w-]{43})\n/.exec(power.said())?.[1], 2 * BOOT_MS)
  const answered = async (): Promise<boolean> => (await board.ask('/api/dashboard', { token })).status === 200
  await until('the page of the board', answered, 2 * BOOT_MS)
}

test('Raspberry Pi 3: U-Boot of the card starts the system, and the token on the console opens the page', async t => {
  const board = await boardOf(t, 'rpi-3')
  board.addToCommandLine(PLACES.bootA, NO_WATCHDOG)
  board.machine = () => ubootMachine(board)
  tryTheOther(board)
  const tried = board.power()
  await until('the watchdog that U-Boot started', () => tried.ended())
  assert.match(tried.said(), /^os-node: boot partition 3$/m)
  assert.doesNotMatch(tried.said(), /Starting kernel/)
  await tried.cut()
  const from = performance.now()
  const power = board.power()
  await until('the system', () => power.said().includes('Starting kernel'))
  // not before the kernel has the bus: it loses the device that U-Boot saw in this emulator
  await until('the bus', () => /serial0-0: probe|Your token/.test(power.said()), 2 * BOOT_MS)
  await power.tell('device_add usb-net,netdev=n')
  await opens(board, power)
  assert.match(power.said(), /^os-node: boot partition 2$/m)
  t.diagnostic(`page after ${Math.round((performance.now() - from) / 1000)} s`)
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
  const install = (name: string): ReturnType<Board['shell']> => board.shell(`os-node update ${url}/${name}`)
  /** Installs an update, and restarts the board if it did not restart itself. */
  const next = async (name: string): Promise<void> => {
    // this emulator does not answer the request of the module
    await board.shell('echo Y >/run/known; mount --bind /run/known /sys/module/os_node_tryboot/parameters/known')
    const { text } = await install(name)
    await until('the restart', () => power.ended()).catch(error => {
      throw new Error(`${error.message}\n${text}\n${power.said().slice(-2000)}`)
    })
    await power.cut()
    power = board.power()
  }
  const good = board.update('1.2.4')
  const { code, text } = await install(good)
  assert.deepEqual([code, /the firmware on the card cannot try a slot/.test(text)], [1, true], text)

  await next(good)
  assert.equal(starts[1]!.partition, 3)
  const { slots } = await board.slots(({ last_update: last }) => last?.outcome === 'confirmed')
  assert.deepEqual(slots, [
    { slot: 'A', version: '1.2.3', running: false, state: 'standby' },
    { slot: 'B', version: '1.2.4', running: true, state: 'active' },
  ])

  await next(board.update('1.2.5', ['ro quiet loglevel=4', 'rdinit=/nothing qu ']))
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
