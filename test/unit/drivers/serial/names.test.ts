// Needs: cc
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  closeSync,
  constants,
  mkdirSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { nodeIdentity, PortNames } from '../../../../drivers/serial/names'
import type { OsError } from '../../../../src/lib/errors'
import { nativeOrNull } from '../../../../src/native'
import { stuckThreads } from '../../../../src/native/native-thread'
import { until } from '../../../lib/gateway'

const root = mkdtempSync(join(tmpdir(), 'names-'))
after(() => rmSync(root, { recursive: true }))
const [dev, sys, devices] = ['dev', 'sys', 'devices'].map(name => join(root, name)) as [string, string, string]
for (const dir of [join(dev, 'serial/by-id'), sys, devices]) mkdirSync(dir, { recursive: true })
const names = new PortNames(dev, sys)

/** A USB adapter as the kernel shows it: its folder, the interface, and the tty below. */
function adapter(tty: string, socket: string, serial: string, id?: string): void {
  const usb = join(devices, socket)
  const port = join(usb, `${socket}:1.0`, tty)
  mkdirSync(port, { recursive: true })
  for (const [name, text] of Object.entries({ idVendor: '0403', idProduct: '6001', serial }))
    writeFileSync(join(usb, name), `${text}\n`)
  mkdirSync(join(sys, tty), { recursive: true })
  symlinkSync(port, join(sys, tty, 'device'))
  writeFileSync(join(dev, tty), '')
  if (id) symlinkSync(join(dev, tty), join(dev, 'serial/by-id', id))
}
const gone = (tty: string): void => {
  unlinkSync(join(dev, tty))
  rmSync(join(sys, tty), { recursive: true })
}

test('without any port the hint says what to do', async () => {
  await assert.rejects(
    names.resolve('/dev/serial/by-id/none'),
    (error: OsError) => error.code === 'NOT_FOUND' && /enable_uart/.test(error.hint),
  )
})

test('a port is found by path, by name, by id, and by the texts of its adapter', async () => {
  adapter('ttyUSB0', '1-1', 'AAA', 'usb-FTDI_AAA-if00-port0')
  adapter('ttyUSB1', '1-2', 'BBB', 'usb-FTDI_BBB-if00-port0')
  const first = join(dev, 'ttyUSB0')
  for (const port of [
    first,
    'ttyUSB0',
    join(dev, 'serial/by-id/usb-FTDI_AAA-if00-port0'),
    'usb-FTDI_AAA-if00-port0',
    'usb:0403:6001:AAA',
  ])
    assert.equal(await names.resolve(port), first)
  assert.equal(await names.resolve('usb:0403:6001:BBB'), join(dev, 'ttyUSB1'))
})

test('a name that matches no port, or several, is answered with the list of ports', async () => {
  const both = (error: OsError): boolean => /AAA.*\(ttyUSB0\).*BBB.*\(ttyUSB1\)/.test(error.hint)
  await assert.rejects(
    names.resolve('ttyUSB7'),
    (error: OsError) => /no serial port ttyUSB7/.test(error.message) && both(error),
  )
  await assert.rejects(names.resolve('ttyUSB7'), (error: OsError) => {
    const ids = ['AAA', 'BBB'].map(
      (serial, k) => join(dev, `serial/by-id/usb-FTDI_${serial}-if00-port0`) + ` (ttyUSB${k})`,
    )
    return error.hint === `there are: ${ids.join(', ')}`
  })
  await assert.rejects(names.resolve('usb:1a86:7523'), (error: OsError) => both(error))
  await assert.rejects(
    names.resolve('usb:0403:6001'),
    (error: OsError) => /2 ports match/.test(error.message) && /AAA.*BBB/.test(error.hint),
  )
  await assert.rejects(names.resolve(''), /no serial port is named/)
})

test('R15: an adapter that returns under another number is found by its serial number, whatever name the configuration uses', async () => {
  const before = await names.usbOf(join(dev, 'ttyUSB0'))
  assert.deepEqual(before, { vendor: '0403', product: '6001', serial: 'AAA', place: '1-1:1.0' })
  gone('ttyUSB0')
  adapter('ttyUSB2', '1-3', 'AAA')
  assert.equal(await names.resolve(join(dev, 'ttyUSB0'), before), join(dev, 'ttyUSB2'))
  await assert.rejects(names.resolve(join(dev, 'ttyUSB0')), /no serial port/)
})

test('R15: two adapters that return with exchanged numbers are distinguished; a link by path follows its USB socket', async () => {
  const [one, two] = [join(dev, 'ttyUSB6'), join(dev, 'ttyUSB7')]
  const socket = join(dev, 'serial/by-path-3-1')
  adapter('ttyUSB6', '3-1', 'CCC')
  adapter('ttyUSB7', '3-2', 'DDD')
  const before = (await names.usbOf(one))!
  for (const tty of ['ttyUSB6', 'ttyUSB7']) gone(tty)
  for (const place of ['3-1', '3-2']) rmSync(join(devices, place), { recursive: true })
  assert.ok(!(await names.isTaken(one, before)), 'an unused number')
  adapter('ttyUSB6', '3-2', 'DDD')
  symlinkSync(one, socket)
  assert.ok((await names.isTaken(one, before)) && (await names.isTaken('ttyUSB6', before)))
  assert.ok(!(await names.isTaken(socket, before)))
  assert.equal(await names.resolve(one, before), one)
  adapter('ttyUSB7', '3-1', 'CCC')
  assert.ok(!(await names.isTaken(one, before)))
  assert.deepEqual([await names.resolve(one, before), await names.resolve('ttyUSB6', before)], [two, two])
  assert.equal(await names.resolve(socket, before), one)
  assert.equal(await names.resolve(one), one)
})

test('an adapter without a serial number is identified by its USB socket', async () => {
  adapter('ttyUSB3', '2-1', '')
  const before = await names.usbOf(join(dev, 'ttyUSB3'))
  gone('ttyUSB3')
  adapter('ttyUSB4', '2-2', '')
  await assert.rejects(names.resolve('ttyUSB3', before), /no serial port/)
  rmSync(join(devices, '2-1'), { recursive: true })
  adapter('ttyUSB5', '2-1', '')
  assert.equal(await names.resolve('ttyUSB3', before), join(dev, 'ttyUSB5'))
})

test('a port without hardware is not listed', async () => {
  adapter('ttyS0', 'pnp0', '')
  writeFileSync(join(sys, 'ttyS0', 'type'), '0\n')
  assert.ok(!(await names.list()).some(({ path }) => path.endsWith('ttyS0')))
})

test('an adapter that does not answer has no description, and blocks neither the others nor this process', {
  skip: nativeOrNull() ? false : 'this machine has no C compiler',
}, async () => {
  adapter('ttyUSB8', '8-1', 'HHH')
  const hangs = join(devices, '8-1', 'idVendor')
  rmSync(hangs)
  execFileSync('mkfifo', [hangs])
  let turns = 0
  const turning = setInterval(() => turns++, 1)
  for (let k = 0; k < 2; k++) {
    const list = await names.list()
    const usbOf = (tty: string) => list.find(({ path }) => path === join(dev, tty))?.usb
    assert.equal(usbOf('ttyUSB8'), undefined)
    assert.equal(usbOf('ttyUSB1')?.serial, 'BBB')
  }
  clearInterval(turning)
  assert.ok(turns > 0)
  assert.equal(stuckThreads('attributes of ttyUSB8'), 1, 'it is not called again meanwhile')
  closeSync(openSync(hangs, constants.O_WRONLY | constants.O_NONBLOCK))
  await until('the thread ends', () => stuckThreads('attributes of ttyUSB8') === 0)
})

test('another device node at the same path has another identity', async () => {
  const path = join(dev, 'ttyX')
  assert.equal(nodeIdentity(path), null)
  writeFileSync(path, '')
  const first = nodeIdentity(path)
  writeFileSync(`${path}2`, '')
  renameSync(`${path}2`, path)
  assert.notEqual(nodeIdentity(path), first)
})
