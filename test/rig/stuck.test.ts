// Hanging calls affect no others: four reads that never return, a name server that never answers, and a serial port whose driver does not open, in
// the process that writes the log. libuv's pool has one thread here, so that a single hanging call in it would stop the log.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { object, parse } from 'valibot'
import { BlockingFiles } from '../../drivers/host/blocking-files'
import { type SerialLine, serialEntries, serialLine } from '../../drivers/serial'
import { systemClock } from '../../src/lib/clock'
import type { OsError } from '../../src/lib/errors'
import { silentLogger } from '../../src/lib/logger'
import { HostResolver } from '../../src/links/resolve'
import { FlashLog } from '../../src/log'
import { SpiBus } from '../../src/native/spi'
import { SerialDevice, SpiChip } from '../lib/chips'
import { removeDir, tempDir, until } from '../lib/gateway'
import { inTheRig } from '../lib/rig'

const COMMITS = 100
/** The fastest of so many batches counts: this machine does other work too, and hanging calls slow each of them. */
const BATCHES = 20
const median = (list: number[]): number => list.sort((a, b) => a - b)[list.length >> 1]!
const code = (expected: string) => (error: OsError) => error.code === expected

/** Commits one after the other, each with a fact, while `goesOn`; the median time in ms, in the fastest batch. */
async function commits(log: FlashLog, goesOn = () => true): Promise<number> {
  let quickest = Number.POSITIVE_INFINITY
  for (let k = 0; k < BATCHES && goesOn(); k++) {
    const ms = await batch(log)
    if (goesOn()) quickest = Math.min(quickest, ms)
  }
  return quickest
}

async function batch(log: FlashLog): Promise<number> {
  const times: number[] = []
  const before = log.status().syncs
  for (let k = 0; k < COMMITS; k++) {
    const sensors = [{ id: 't', status: 'OK', unit: 'K', value: 300 + k }]
    const start = performance.now()
    log.appendFact({ id: 'n', state: 'ONLINE', tRaw: k, aid: 7, sensors }, { medium: 'local' })
    await log.flush()
    times.push(performance.now() - start)
  }
  assert.ok(log.status().syncs - before >= COMMITS, 'every commit is on the disk')
  return median(times)
}

process.env.UV_THREADPOOL_SIZE = '1'
inTheRig(() => {
  const chips = [0, 1, 2].map(k => new SpiChip(`spidev9.${k}`))
  const dir = tempDir()
  const nameServer = createSocket('udp4')
  let asked = 0
  before(async () => {
    for (const chip of chips) await chip.start()
    nameServer.on('message', () => asked++)
    await new Promise<void>(resolve => nameServer.bind(53, '127.0.0.1', resolve))
    writeFileSync('/etc/resolv.conf', 'nameserver 127.0.0.1\n')
    writeFileSync('/etc/hosts', '127.0.0.1 localhost\n')
  })
  after(async () => {
    nameServer.close()
    for (const chip of chips) await chip.stop()
    removeDir(dir)
  })

  test('four stuck reads and a dead name server do not slow down the commits of the log', async t => {
    const log = await FlashLog.open({ dir: join(dir, 'log') })
    const buses = await Promise.all(chips.map(({ path }) => SpiBus.open(path)))
    await commits(log)
    const free = await commits(log)

    for (const chip of chips) chip.hang()
    const read = Uint8Array.of(0x42, 0)
    const lost = buses.map(bus => assert.rejects(bus.transfer(read, new Uint8Array(2), 20), code('TIMEOUT')))
    const sensor = join(dir, 'temp1_input')
    execFileSync('mkfifo', [sensor])
    const files = new BlockingFiles({ deadlineMs: 20 })
    lost.push(assert.rejects(files.text(sensor), code('TIMEOUT')))
    await Promise.all(lost)
    const resolving = assert.rejects(new HostResolver().resolve('upstream.example.org'), code('NETWORK'))
    while (asked === 0) await new Promise(setImmediate)

    const stuck = await commits(log)
    assert.deepEqual([...buses.map(bus => bus.stuck), files.stuck], [true, true, true, 1], 'they hang to this moment')
    assert.equal(await readFile('/proc/self/comm', 'utf8'), readFileSync('/proc/self/comm', 'utf8'), 'the pool is free')
    t.diagnostic(`a commit takes ${free.toFixed(3)} ms, with all that stuck ${stuck.toFixed(3)} ms`)
    assert.ok(stuck < 3 * free, `${stuck} ms instead of ${free} ms`)
    await resolving
    for (const bus of buses) bus.close()
    await log.close()
  })

  test('a serial port whose driver does not answer times out: commits, other ports and the pool continue', async t => {
    const [bad, good] = [new SerialDevice('ttyBAD0'), new SerialDevice('ttyGOOD0')]
    await bad.start()
    await good.start()
    t.after(() => Promise.all([bad.stop(), good.stop()]))
    const make = ({ path }: SerialDevice): SerialLine => {
      const settings = parse(object(serialEntries(115_200)), { port: path })
      return serialLine(path, settings, { clock: systemClock, logger: silentLogger })
    }
    const events = { lost: () => assert.fail('lost'), degraded: () => undefined }
    const log = await FlashLog.open({ dir: join(dir, 'serial') })
    const line = make(bad)
    await line.open(events)
    await line.close()
    await commits(log)
    const free = await commits(log)
    const [threads, fds] = [readdirSync('/proc/self/task').length, readdirSync('/proc/self/fd').length]

    bad.hang()
    const start = performance.now()
    let given = 0
    const opening = line.open(events).then(
      () => assert.fail('opened'),
      (error: OsError) => {
        given = performance.now() - start
        assert.equal(error.code, 'TIMEOUT')
        assert.match(error.message, /^\/dev\/ttyBAD0 does not open: its driver does not answer/)
      },
    )
    assert.equal(await readFile('/proc/self/comm', 'utf8'), readFileSync('/proc/self/comm', 'utf8'), 'the pool is free')
    const other = make(good)
    await other.open(events)
    assert.equal(given, 0, 'it hangs')
    const stuck = await commits(log, () => given === 0)
    await opening
    assert.ok(given < 30_000, `${given} ms`)
    for (let k = 0; k < 20; k++) await assert.rejects(line.open(events), code('BUS_STUCK'))
    assert.equal(readdirSync('/proc/self/task').length, threads + 2, 'one hangs, one is of the other port')
    t.diagnostic(
      `given up after ${given.toFixed(0)} ms; a commit takes ${free.toFixed(3)} ms, meanwhile ${stuck.toFixed(3)} ms`,
    )
    assert.ok(stuck < 3 * free, `${stuck} ms instead of ${free} ms`)

    bad.recover()
    await other.close()
    await until('a late opening is closed', () => readdirSync('/proc/self/fd').length <= fds)
    await until('its thread has ended', () => readdirSync('/proc/self/task').length <= threads)
    await line.open(events)
    bad.hang()
    const closing = performance.now()
    await line.close()
    const closed = performance.now() - closing
    assert.ok(closed < 30_000, `${closed} ms`)
    assert.equal(await readFile('/proc/self/comm', 'utf8'), readFileSync('/proc/self/comm', 'utf8'), 'the pool is free')
    await assert.rejects(line.open(events), code('BUS_STUCK'))
    bad.recover()
    await until('it can be opened', () =>
      line.open(events).then(
        () => true,
        () => false,
      ),
    )
    await line.close()
    await log.close()
  })
})
