// Serial ports of the addon on a terminal whose driver can hang (fake-tty.c): the settings it gets, and that a hanging one
// times out, for this thread and for libuv's pool, and keeps nothing when it returns.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, test } from 'node:test'
import type { OsError } from '../../../src/lib/errors'
import { getRs485, setRs485 } from '../../../src/native/rs485'
import { TtyPort, type TtySettings } from '../../../src/native/tty'
import { until } from '../../lib/gateway'
import { heldClock } from '../../lib/hanging'
import { onTty } from '../../lib/on-tty'
import { isPreloaded, testPreloaded } from '../../lib/preload'
import { Ptys } from '../../lib/ptys'

const FAKE = 'test/unit/native/fake-tty.c'
const LONG = 60_000
/** passes only when a test says so, or calls it again */
const SHORT = 300
const plain: TtySettings = { baudrate: 115_200, data_bits: 8, parity: 'none', stop_bits: 1, flow: 'none' }
const code = (expected: string) => (error: OsError) => error.code === expected
const descriptors = (): number => readdirSync('/proc/self/fd').length
const threads = (): number => readdirSync('/proc/self/task').length

const inside = (): void => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-tty-'))
  const ptys = new Ptys()
  let [path, other] = ['', '']
  let [fds, running] = [0, 0]
  before(async () => {
    path = realpathSync((await ptys.port(join(dir, 'fake'))).path)
    other = realpathSync((await ptys.port(join(dir, 'other'))).path)
    process.env.FAKE_TTY = path
    process.env.FAKE_TTY_DIR = dir
    await readFile('/proc/self/comm') // the pool's one thread is started
    running = threads()
    await (await TtyPort.open(other, plain, LONG)).close() // so that libuv has everything it needs for watching
    await until('the thread of the port ends', () => threads() <= running)
    fds = descriptors()
  })
  after(() => {
    ptys.close()
    rmSync(dir, { recursive: true })
  })
  beforeEach(() => writeFileSync(join(dir, 'calls'), ''))
  const calls = (): string[] => readFileSync(join(dir, 'calls'), 'utf8').split('\n').slice(0, -1)
  const hang = (call: string): void => writeFileSync(join(dir, 'hang'), call)

  test('the driver gets every setting, then earlier input is discarded', async () => {
    const port = await TtyPort.open(path, { ...plain, dtr: false, rts: true }, LONG)
    await port.close()
    assert.deepEqual(calls(), [
      'open nonblock noctty cloexec',
      'TCSETS2 115200 8N1 hupcl local raw marked min 1',
      'TCFLSH',
      'TIOCMBIS 4',
      'TIOCMBIC 2',
      'TIOCNXCL',
      'TCFLSH',
      'close',
    ])
  })

  test('opening and discarding earlier input is one step: bytes a peer then sends are not lost while this thread is busy', async () => {
    const opening = TtyPort.open(path, plain, LONG)
    const wait = new Int32Array(new SharedArrayBuffer(4))
    for (let k = 0; k < 1000 && !calls().includes('TCFLSH'); k++) Atomics.wait(wait, 0, 0, 5)
    assert.equal(calls().at(-1), 'TCFLSH')
    await (await opening).close()
  })

  for (const [settings, words] of [
    [{ data_bits: 7, parity: 'even', stop_bits: 2 }, '115200 7E2'],
    [{ data_bits: 5, parity: 'odd', flow: 'rts_cts' }, '115200 5O1 rtscts'],
    [{ data_bits: 6, baudrate: 31_250, flow: 'xon_xoff' }, '31250 6N1 xonxoff'],
  ] as [Partial<TtySettings>, string][])
    test(`the settings ${words}`, async () => {
      await (await TtyPort.open(path, { ...plain, ...settings }, LONG)).close()
      assert.equal(calls()[1], `TCSETS2 ${words} hupcl local raw marked min 1`)
    })

  test('the baud rate is the one the driver applied', async () => {
    const port = await TtyPort.open(path, { ...plain, baudrate: 3_000_000 }, LONG)
    assert.equal(port.baudrate, 3_200_000)
    await port.close()
  })

  test('modem lines that a port lacks are named', async () => {
    await assert.rejects(TtyPort.open(other, { ...plain, dtr: false }, LONG), (error: OsError) => {
      assert.deepEqual([error.code, error.hint], ['CONFIG_INVALID', 'leave out dtr and rts'])
      return /has no DTR and RTS/.test(error.message)
    })
  })

  test('a port that cannot switch the direction of RS485 says so', async () => {
    const refused = (error: OsError): boolean =>
      error.code === 'UNSUPPORTED' && /cannot switch the direction/.test(error.hint)
    await assert.rejects(
      onTty(other, port => setRs485(port, {})),
      refused,
    )
    await assert.rejects(onTty(other, getRs485), refused)
  })

  test('a locked port stays with the owner of the lock', async () => {
    const port = await TtyPort.open(other, plain, LONG)
    await assert.rejects(TtyPort.open(other, plain, LONG), (error: OsError) => error.details['errno'] === 'EBUSY')
    await port.close()
    const holder = spawn('flock', ['-x', other, 'sh', '-c', 'echo has it; exec sleep 60'], { detached: true })
    await new Promise(resolve => holder.stdout.once('data', resolve))
    await assert.rejects(TtyPort.open(other, plain, LONG), (error: OsError) => error.details['errno'] === 'EBUSY')
    process.kill(-holder.pid!, 'SIGKILL')
    await until('free', () =>
      TtyPort.open(other, plain, LONG)
        .then(again => again.close().then(() => true))
        .catch(() => false),
    )
  })

  for (const call of ['open', 'TCSETS2', 'TCFLSH', 'TIOCMBIS', 'close'])
    test(`a driver that hangs in ${call} times out, and leaves nothing behind when it returns`, async t => {
      const settings = { ...plain, dtr: true }
      await until('the last test is over', () => threads() <= running)
      const first = call === 'close' ? await TtyPort.open(path, settings, LONG) : null
      const clock = heldClock(t)
      hang(call)
      const given = first ? first.close() : assert.rejects(TtyPort.open(path, settings, SHORT), code('TIMEOUT'))
      await until('it hangs', () => calls().at(-1)?.startsWith(call))
      clock.pass(1001)
      await given
      for (let k = 0; k < 5; k++) await assert.rejects(TtyPort.open(path, settings, SHORT), code('BUS_STUCK'))
      assert.equal(threads(), running + 1, 'the one that hangs, and no more')
      // the pool has one thread here
      assert.equal(await readFile('/proc/self/comm', 'utf8'), readFileSync('/proc/self/comm', 'utf8'))
      const neighbour = await TtyPort.open(other, plain, LONG)
      await neighbour.close()
      hang('')
      await until('the thread ends', () => threads() <= running)
      await until('descriptors are back', () => descriptors() <= fds)
      await (await TtyPort.open(path, settings, LONG)).close()
    })

  test('a port opened and closed many times leaves nothing behind', async () => {
    for (let k = 0; k < 300; k++) {
      const port = await TtyPort.open(other, plain, LONG)
      port.watch(() => undefined)
      await port.close()
    }
    await until('threads have ended', () => threads() <= running)
    await until('descriptors are back', () => descriptors() <= fds)
  })
}

process.env.UV_THREADPOOL_SIZE = '1'
if (isPreloaded(FAKE)) inside()
else testPreloaded(FAKE, 14)
