import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { object, parse } from 'valibot'
import { serialEntries, serialLine } from '../../../../drivers/serial'
import { PortNames, type UsbIdentity } from '../../../../drivers/serial/names'
import type { SerialSettings } from '../../../../drivers/serial/serial-options'
import { systemClock } from '../../../../src/lib/clock'
import type { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import { nativeError } from '../../../../src/native'
import { until } from '../../../lib/gateway'
import { leastGrowth } from '../../../lib/leak'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { Ptys } from '../../../lib/ptys'

const context = { clock: systemClock, logger: silentLogger }
const dir = mkdtempSync(join(tmpdir(), 'serial-'))
let ptys: Ptys
before(() => {
  ptys = new Ptys()
})
after(() => {
  ptys.close()
  rmSync(dir, { recursive: true })
})

const settings = (port: string, more: Partial<SerialSettings> = {}): SerialSettings =>
  ({ ...parse(object(serialEntries(1_000_000)), { port, ...more }) }) as SerialSettings

const heard = () => {
  const lost: string[] = []
  const complaints: string[] = []
  return {
    lost,
    complaints,
    events: { lost: (r: string) => lost.push(r), degraded: (r: string) => complaints.push(r) },
  }
}

test('bytes go in both directions unchanged, and two users that name the same port share it', async () => {
  const plug = await ptys.port(join(dir, 'a'))
  const one = serialLine('one', settings(plug.path), context)
  const two = serialLine('two', settings(plug.path), context)
  const got: Buffer[][] = [[], []]
  one.onData(chunk => got[0]!.push(Buffer.from(chunk)))
  two.onData(chunk => got[1]!.push(Buffer.from(chunk)))
  await Promise.all([one.open(heard().events), two.open(heard().events)])
  assert.equal(one.device, two.device)
  assert.equal(one.port, two.port)
  const every = Uint8Array.from({ length: 256 }, (_, k) => k)
  plug.write(every)
  await until('both heard', () => got.every(list => Buffer.concat(list).length === 256))
  for (const list of got) assert.deepEqual(Buffer.concat(list), Buffer.from(every))
  const sent: Buffer[] = []
  plug.onBytes = bytes => sent.push(Buffer.from(bytes))
  await Promise.all([one.write(every), two.write(every)])
  await until('both sent', () => Buffer.concat(sent).length === 512)
  assert.deepEqual(Buffer.concat(sent), Buffer.concat([every, every]))
  await one.close()
  await two.write(every)
  await two.close()
  await assert.rejects(two.write(every), /is not open/)
})

test('bytes that the kernel marks as damaged are counted and reported at their position', async () => {
  const plug = await ptys.port(join(dir, 'marked'))
  const line = serialLine('marked', settings(plug.path, { parity: 'even' }), context)
  const got: (number | 'damaged')[] = []
  line.onData(
    chunk => got.push(...chunk),
    () => got.push('damaged'),
  )
  const { events, complaints } = heard()
  await line.open(events)
  // a pseudo-terminal has no damaged bytes: the test writes the marks itself
  execFileSync('stty', ['-F', plug.path, '-parmrk', '-inpck'])
  plug.write(Uint8Array.of(1, 0xff, 0xff, 2, 0xff))
  plug.write(Uint8Array.of(0, 0x41, 3))
  await until('everything arrived', () => got.at(-1) === 3)
  assert.deepEqual(got, [1, 0xff, 2, 'damaged', 3])
  assert.deepEqual([line.counters.rx, line.counters.detail.damaged_bytes, complaints.length], [4, 1, 0])
  await line.close()
})

test('a large write is sent in pieces, and resolves when it is on the wire', async () => {
  const plug = await ptys.port(join(dir, 'b'))
  const line = serialLine('b', settings(plug.path, { baudrate: 230_400 }), context)
  let count = 0
  plug.onBytes = bytes => {
    count += bytes.length
  }
  await line.open(heard().events)
  const start = performance.now()
  await line.write(new Uint8Array(11_520))
  assert.ok(performance.now() - start > 450, '500 ms at 230400 baud')
  await until('everything arrived', () => count === 11_520)
  await line.close()
})

test('a write resolves 10 ms before its last byte is on the wire, counting every bit of a character', async () => {
  for (const [parity, ms] of [
    ['none', 100],
    ['even', 110],
  ] as const) {
    const plug = await ptys.port(join(dir, `wire-${parity}`))
    const timers = new ManualTimers(new ManualClock())
    const { clock } = timers
    const line = serialLine('wire', settings(plug.path, { baudrate: 9600, parity }), { ...context, clock, timers })
    await line.open(heard().events)
    let sent = false
    const writing = line.write(new Uint8Array(96)).then(() => {
      sent = true
    })
    await timers.advance(ms - 11)
    assert.deepEqual([sent, Math.round(line.port!.wireFreeMs)], [false, 11])
    await timers.advance(1)
    assert.ok(sent)
    await writing
    const closed = line.close()
    await timers.advance(100)
    await closed
  }
})

test('other settings for an open port are refused by name', async () => {
  const plug = await ptys.port(join(dir, 'c'))
  const one = serialLine('one', settings(plug.path), context)
  const two = serialLine('two', settings(plug.path, { parity: 'even' }), context)
  await one.open(heard().events)
  await assert.rejects(two.open(heard().events), /open for one with other settings/)
  await one.close()
  await two.open(heard().events)
  await two.close()
})

test('an unplugged port is reported once, and its return is noticed under a new device', async () => {
  const plug = await ptys.port(join(dir, 'd'))
  const line = serialLine('d', settings(plug.path), context)
  const { events, lost } = heard()
  await line.open(events)
  const device = line.device
  const other = await ptys.port(join(dir, 'd-other'))
  await plug.unplug()
  await until('it is reported', () => lost.length > 0)
  assert.match(lost[0]!, /unplugged or hung up/)
  await line.close()
  await assert.rejects(line.open(events), (error: OsError) => error.code === 'NOT_FOUND')
  let back = 0
  const end = line.onReturn(() => back++)
  // one takes the number that became free, unless another program does
  for (let k = 0; k < 8; k++) if (realpathSync((await ptys.port(join(dir, `d-${k}`))).path) === device) break
  await plug.plug()
  await until('noticed', () => back === 1)
  end()
  await line.open(events)
  assert.notEqual(line.device, device)
  assert.equal(lost.length, 1)
  await line.close()
  await other.unplug()
})

test('R15: another adapter that gets our number first is not taken for ours, by no line of that name', async () => {
  const plug = await ptys.port(join(dir, 'n'))
  let taken = false
  class Numbers extends PortNames {
    override resolve(): Promise<string> {
      return super.resolve(plug.path)
    }
    override async isTaken(): Promise<boolean> {
      return taken
    }
    override async usbOf(): Promise<UsbIdentity> {
      return { vendor: '0403', product: '6001', serial: 'A', place: '1-1:1.0' }
    }
  }
  const clock = new ManualClock()
  const make = (name: string) => serialLine(name, settings('ttyUSB90'), { ...context, clock, names: new Numbers() })
  const [one, two] = [make('one'), make('two')]
  await one.open(heard().events)
  await one.close()
  taken = true
  for (const line of [one, two]) await assert.rejects(line.open(heard().events), /ttyUSB90 is another adapter now/)
  clock.advance(999)
  await assert.rejects(two.open(heard().events), { code: 'NOT_FOUND' })
  clock.advance(1)
  await two.open(heard().events)
  await two.close()
})

test('a peer that reads nothing: writes time out, the link is degraded and recovers, closing does not wait', async () => {
  const plug = await ptys.port(join(dir, 'e'))
  const line = serialLine(
    'e',
    settings(plug.path, { baudrate: 4_000_000, write_timeout_ms: 100, flow: 'xon_xoff' }),
    context,
  )
  const { events, complaints } = heard()
  await line.open(events)
  plug.write(Uint8Array.of(0x13)) // XOFF
  await until('held', async () => {
    const failed = line.write(new Uint8Array(8192)).then(
      () => null,
      (error: OsError) => error,
    )
    const error = await failed
    return error?.code === 'TIMEOUT'
  })
  assert.match(complaints[0]!, /no byte was sent for 0.1 s, the peer holds the line/)
  // more than may wait at once: an abandoned write waits no more
  for (let k = 0; k < 2; k++) await assert.rejects(line.write(new Uint8Array(200_000)), /no byte was sent/)
  plug.write(Uint8Array.of(0x11)) // XON
  await until('it has recovered', async () => {
    await line.write(Uint8Array.of(1)).catch(() => undefined)
    return complaints.at(-1) === ''
  })
  plug.write(Uint8Array.of(0x13))
  void line.write(new Uint8Array(20_000)).catch(() => undefined)
  const start = performance.now()
  await line.close()
  assert.ok(performance.now() - start < 20_000, 'a kernel may wait 30 s for what is not sent')
})

test('a write beyond the queue limit is refused immediately', async () => {
  const plug = await ptys.port(join(dir, 'f'))
  const line = serialLine('f', settings(plug.path, { baudrate: 300 }), context)
  await line.open(heard().events)
  const writes = Array.from({ length: 200 }, () =>
    line.write(new Uint8Array(10)).then(
      () => 'ok',
      (e: OsError) => e.code,
    ),
  )
  const codes = await Promise.all([...writes, line.close().then(() => 'closed')])
  assert.equal(codes.filter(code => code === 'TIMEOUT').length, 200 - 128)
})

test('a port that another program has locked is reported as busy', async () => {
  const plug = await ptys.port(join(dir, 'g'))
  const line = serialLine('g', settings(plug.path), context)
  const { spawn } = await import('node:child_process')
  const other = spawn('flock', ['-x', plug.path, 'sleep', '30'], { detached: true })
  try {
    await until('busy', async () => {
      try {
        await line.open(heard().events)
      } catch (error) {
        return (error as OsError).code === 'PORT_BUSY' && /in use by another program/.test((error as OsError).message)
      }
      await line.close()
      return false
    })
  } finally {
    process.kill(-other.pid!, 'SIGKILL')
  }
})

test('a file that is no terminal is refused as a serial port', async () => {
  const line = serialLine('h', settings('/dev/null'), context)
  await assert.rejects(
    line.open(heard().events),
    (error: OsError) => error.code === 'CONFIG_INVALID' && /no serial port/.test(error.message),
  )
})

test('a port without permission names the missing group', async () => {
  const { openError } = await import('../../../../drivers/serial/errors')
  const error = openError(nativeError(-13, 'open', '/dev/tty0'), '/dev/tty0')
  assert.equal(error.code, 'NO_ACCESS')
  assert.match(error.message, /not in the group \w+/)
  assert.match(error.hint, /usermod -aG/)
})

test('exclusive turns run one after the other', async () => {
  const plug = await ptys.port(join(dir, 'i'))
  const one = serialLine('one', settings(plug.path), context)
  const two = serialLine('two', settings(plug.path), context)
  await one.open(heard().events)
  await two.open(heard().events)
  const order: string[] = []
  const turn = (line: typeof one, name: string) =>
    line.exclusive(async () => {
      order.push(`${name} begins`)
      await line.write(new Uint8Array(3000))
      order.push(`${name} ends`)
    })
  await Promise.all([turn(one, 'one'), turn(two, 'two')])
  assert.deepEqual(order, ['one begins', 'one ends', 'two begins', 'two ends'])
  await one.close()
  await two.close()
})

test('a custom baud rate is set', async () => {
  const plug = await ptys.port(join(dir, 'k'))
  const line = serialLine('k', settings(plug.path, { baudrate: 250_000 }), context)
  const { events, complaints } = heard()
  await line.open(events)
  assert.equal(line.port!.baudrate, 250_000)
  assert.deepEqual(complaints, [])
  await line.close()
})

test('R14: a thousand unplugs and replugs leave descriptors and memory as they were, and do not touch other ports', async () => {
  const quiet = await ptys.port(join(dir, 'quiet'))
  const other = serialLine('quiet', settings(quiet.path), context)
  const { events: otherEvents, lost: otherLost } = heard()
  let heardThere = 0
  other.onData(chunk => {
    heardThere += chunk.length
  })
  await other.open(otherEvents)
  const plug = await ptys.port(join(dir, 'replug'))
  const line = serialLine('replug', settings(plug.path), context)
  const fds = () => readdirSync('/proc/self/fd').length
  const rounds = async (count: number) => {
    for (let k = 0; k < count; k++) {
      let told: () => void = () => undefined
      const lost = new Promise<void>(resolve => {
        told = resolve
      })
      const events = { lost: told, degraded: () => undefined }
      const got = new Promise<void>(resolve => line.onData(() => resolve()))
      await line.open(events)
      await line.write(Uint8Array.of(k & 0xff))
      plug.write(Uint8Array.of(1))
      await got
      await plug.unplug()
      await lost
      await line.close()
      await plug.plug()
      quiet.write(Uint8Array.of(2))
    }
  }
  await rounds(100)
  global.gc?.()
  const descriptors = fds()
  let done = 100
  const thousand = async (): Promise<void> => {
    await rounds(1000)
    done += 1000
    global.gc?.()
  }
  const grown = await leastGrowth(thousand, 12)
  assert.ok(grown < 12, `${grown} MiB more`)
  await until('descriptors are back', () => fds() <= descriptors)
  await until('the other received everything', () => heardThere === done)
  assert.deepEqual(otherLost, [])
  await other.close()
})
