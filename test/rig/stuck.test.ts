// What hangs costs nobody else: four reads that never come back and a name server that never answers, in the process that
// keeps the log. libuv's pool has one thread here, so that a single one of them in it would stop the log for good.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { readFileSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { SlowFiles } from '../../drivers/host/slow'
import type { OsError } from '../../src/lib/errors'
import { HostResolver } from '../../src/links/resolve'
import { FlashLog } from '../../src/log'
import { SpiBus } from '../../src/native/spi'
import { SpiChip } from '../lib/chips'
import { removeDir, tempDir } from '../lib/gateway'
import { inTheRig } from '../lib/rig'

const COMMITS = 300
const median = (list: number[]): number => list.sort((a, b) => a - b)[list.length >> 1]!
const code = (expected: string) => (error: OsError) => error.code === expected

/** Commits one after the other, each with a fact; the time of the middle one in ms. */
async function commits(log: FlashLog): Promise<number> {
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

  test('four stuck reads and a dead name server leave the commits of the log as they are', async t => {
    const log = await FlashLog.open({ dir: join(dir, 'log') })
    const buses = await Promise.all(chips.map(({ path }) => SpiBus.open(path)))
    await commits(log)
    const free = await commits(log)

    for (const chip of chips) chip.hang()
    const read = Uint8Array.of(0x42, 0)
    const lost = buses.map(bus => assert.rejects(bus.transfer(read, new Uint8Array(2), 20), code('TIMEOUT')))
    const sensor = join(dir, 'temp1_input')
    execFileSync('mkfifo', [sensor])
    const files = new SlowFiles({ deadlineMs: 20 })
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
})
