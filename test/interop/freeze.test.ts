// What counts as a stall of a gateway and what does not (R23), on real processes. The faults are injected: a file that node
// loads before the built gateway makes the event loop spin, blocks the scheduler, or slows down the disk.
// Needs: cc
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { nativeOrNull } from '../../src/native'
import { askControl } from '../lib/control'
import { freePort, Machine, removeDir, tempDir, until } from '../lib/gateway'
import { FakeSystemd } from '../lib/systemd'

const lacks = nativeOrNull() ? false : 'no addon here'

/** SIGUSR2 triggers the fault. */
const FAULTS = {
  frozen: `process.on('SIGUSR2', () => { for (;;); })`,
  // timers and sockets continue, but work queued after them never runs
  stalled: `process.on('SIGUSR2', () => { globalThis.setImmediate = () => ({ unref() {} }) })`,
  slowDisk: `const fs = require('fs'); const real = fs.fdatasync; let slow = false
    process.on('SIGUSR2', () => { slow = true })
    fs.fdatasync = (fd, done) => slow ? setTimeout(() => real(fd, done), 9000) : real(fd, done)`,
}

interface World {
  gw: Machine
  start: (env?: Record<string, string>) => Promise<void>
}

async function world(t: TestContext, fault: keyof typeof FAULTS, gateway: object): Promise<World & { dir: string }> {
  const dir = tempDir()
  const web = await freePort()
  const gw = new Machine(join(dir, 'gw'), 'run', {
    device_id: 'GW1',
    assigned_id: 5,
    web_user: { auth_enabled: false },
    storage: { sql: { enabled: false } },
    gateway: { watchdog: { stall_s: 5 }, log: { commit_interval_ms: 100 }, ...gateway },
  })
  t.after(async () => {
    await gw.stop('SIGKILL')
    removeDir(dir)
  })
  const preload = join(dir, 'fault.cjs')
  writeFileSync(preload, `if (require('worker_threads').isMainThread) { ${FAULTS[fault]} }`)
  const start = (env: Record<string, string> = {}): Promise<void> => {
    const all = { NODE_OPTIONS: `--require=${preload}`, ...env }
    Object.assign(process.env, all)
    const started = gw.start(['--port', String(web)], web)
    for (const name of Object.keys(all)) delete process.env[name]
    return started
  }
  return { dir, gw, start }
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command gives
const status = (gw: Machine): Promise<any> => askControl(gw.dataDir, 'status')
const uplinks = [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: 9 }]
const sources = [{ name: 'uptime', type: 'uptime', interval_ms: 100 }]

describe('a gateway that stalls', { concurrency: 3 }, () => {
  test('a frozen event loop is killed by SIGALRM; the next start has the log and counts a crash', async t => {
    const { gw, start } = await world(t, 'frozen', { sources, uplinks })
    await start()
    const facts = await until('facts are committed', async () => {
      const { log, guard, intake } = await status(gw)
      return guard.progress_ms >= 0 && log.committed_seq > 10 && intake.facts
    })
    await until('the watchdog has started', async () => (await status(gw)).links.up.state === 'down')
    process.kill(gw.pid!, 'SIGUSR2')
    await until('it has ended', () => gw.ended)
    assert.equal(gw.ended!.signal, 'SIGALRM')
    assert.match(gw.output, /the event loop has been frozen for \d+ s; ending the process/)
    await start()
    await until('it accepts readings again', async () => (await status(gw)).intake.facts > 3)
    assert.equal((await askControl(gw.dataDir, 'safe-mode')).crashes, 1)
    assert.ok((await status(gw)).log.last_seq > facts)
    await gw.stop('SIGTERM')
    assert.equal(gw.ended!.code, 0)
    assert.equal(gw.json('log', 'verify').ok, true)
  })

  test('a stalled pipeline without systemd ends the process with 71, and the reason is kept', async t => {
    const { gw, start } = await world(t, 'stalled', { sources, uplinks, safe_mode: { after_crashes: 1 } })
    await start()
    await until('readings arrive', async () => (await status(gw)).intake.facts > 3 && (await status(gw)).guard)
    await until('links were opened once', async () => (await status(gw)).links.up.state === 'down')
    process.kill(gw.pid!, 'SIGUSR2')
    await until('it has ended', () => gw.ended)
    assert.deepEqual([gw.ended!.code, gw.ended!.signal], [71, null], gw.output)
    assert.match(gw.output, /the pipeline has stalled: no progress for \d+ s; the process ends with 71/)
    assert.match(gw.json('safe-mode').reason, /the pipeline has stalled/)
    assert.equal(gw.json('log', 'verify').ok, true)
  })

  test('a stalled pipeline under systemd: its watchdog is no longer notified, and STATUS says why', {
    skip: lacks,
  }, async t => {
    const { dir, gw, start } = await world(t, 'stalled', { sources, uplinks })
    const systemd = await FakeSystemd.start(join(dir, 'notify'))
    t.after(() => systemd.close())
    await start({ NOTIFY_SOCKET: systemd.path, WATCHDOG_USEC: '1000000' })
    await systemd.next('WATCHDOG', 2)
    process.kill(gw.pid!, 'SIGUSR2')
    const told = await until('stalled', () =>
      systemd.with('STATUS').find(({ fields }) => /stalled/.test(fields.STATUS!)),
    )
    const fed = systemd.with('WATCHDOG').length
    const later = systemd.heard.length
    await until('time goes on', async () => (await status(gw)).guard.progress_ms > 12_000)
    assert.equal(gw.ended, undefined, 'systemd decides')
    assert.equal(systemd.with('WATCHDOG').length, fed, `told at ${told.at}, ${later} messages before`)
  })

  test('no sources, a dead uplink, failing sources and a slow disk are no stall', { skip: lacks }, async t => {
    const failing = [{ name: 'none', type: 'disk', interval_ms: 100, match: 'no such disk' }, ...sources]
    const quiet = await world(t, 'slowDisk', { sources: [], uplinks })
    const busy = await world(t, 'slowDisk', { sources: failing, uplinks })
    const heard = await Promise.all([quiet, busy].map(({ dir }) => FakeSystemd.start(join(dir, 'notify'))))
    t.after(() => {
      for (const systemd of heard) systemd.close()
    })
    const env = (k: number) => ({ NOTIFY_SOCKET: heard[k]!.path, WATCHDOG_USEC: '1000000' })
    await Promise.all([quiet, busy].map(({ start }, k) => start(env(k))))
    for (const { gw } of [quiet, busy]) process.kill(gw.pid!, 'SIGUSR2')
    // far longer than the stall limit of 5 s
    for (const systemd of heard) await systemd.next('WATCHDOG', systemd.with('WATCHDOG').length + 30)
    await until('the disk is slow', async () => (await status(busy.gw)).log.pending > 0)
    const { links, guard } = await status(busy.gw)
    assert.notEqual(links.up.state, 'up')
    assert.notEqual(links.none.state, 'up', JSON.stringify(links.none))
    assert.ok(guard.progress_ms < 6000)
    assert.ok((await status(quiet.gw)).guard.progress_ms < 6000)
    for (const { gw } of [quiet, busy]) {
      assert.equal(gw.ended, undefined, gw.output)
      assert.doesNotMatch(gw.output, /stalled|frozen/)
    }
  })
})
