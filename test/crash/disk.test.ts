// A gateway and its upstream on real disks that are full, read-only or owned by another user, at the start and while running,
// and that recover; and a gateway without a free descriptor (R30).
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { appendFileSync, chmodSync, copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { answerOf } from '../lib/ask'
import { databaseKeys, freePort, freeUdpPort, Machine, removeDir, script, sleep, tempDir, until } from '../lib/gateway'

const dir = tempDir()
const machines: Machine[] = []
const mounts: string[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  for (const mount of mounts) execFileSync('umount', ['-l', mount])
  removeDir(dir)
})
const skip = process.getuid?.() !== 0 && 'needs root to mount a disk'

class Disk {
  constructor(readonly path: string) {
    mkdirSync(path, { recursive: true })
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m,mode=750', 'tmpfs', path])
    mounts.push(path)
  }
  fill(): void {
    const block = Buffer.alloc(4096)
    for (;;) {
      try {
        appendFileSync(join(this.path, 'fill'), block)
      } catch {
        return
      }
    }
  }
  free(): void {
    rmSync(join(this.path, 'fill'))
  }
  remount(how: 'ro' | 'rw'): void {
    execFileSync('mount', ['-o', `remount,${how}`, this.path])
  }
}

test("on full and read-only disks data is forwarded from RAM, nothing is acknowledged as kept, and the disk's recovery needs no help", {
  skip,
}, async () => {
  const packets = await freeUdpPort()
  const [upWeb, gwWeb] = [await freePort(), await freePort()]
  const up = new Machine(join(dir, 'up'), 'serve', {})
  const gw = new Machine(join(dir, 'gw'), 'run', {
    gateway: {
      sources: [{ name: 'cpu', type: 'cpu', interval_ms: 100 }],
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: packets }],
      log: { commit_interval_ms: 200 },
    },
  })
  machines.push(up, gw)
  const [upDisk, gwDisk] = [new Disk(up.dataDir), new Disk(gw.dataDir)]
  const serveArgs = ['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(upWeb)]
  const gwArgs = ['--port', String(gwWeb)]
  const status = (of: Machine) => answerOf(of, 'status')
  const facts = async (of: Machine): Promise<number> => (await status(of)).log.records

  // the upstream starts on a full disk: it assigns no id, and acknowledges nothing
  const { token } = up.json('token', '--new') as { token: string }
  upDisk.fill()
  await up.start(serveArgs, upWeb)
  assert.match(up.output, /WARN {2}data: the lock is in RAM only: disk full \(ENOSPC\)/)
  const health = (await (await fetch(`http://127.0.0.1:${upWeb}/health`)).json()) as object
  assert.deepEqual(health, { ok: true, service: 'web_user', state: 'degraded', reason: 'disk full (ENOSPC)' })
  await gw.start(gwArgs, gwWeb)
  await until(
    'the upstream is queried',
    async () => Object.values((await status(up)).links as Record<string, { rx: number }>)[0]!.rx > 1,
  )
  assert.equal((await status(gw)).identity.assigned_id, 4294967295)
  const locked = up.run('run')
  assert.deepEqual([locked.code, /is in use by process \d+ \(os-node serve\)/.test(locked.stderr)], [4, true])

  // it recovers: the id is assigned, and everything arrives
  upDisk.free()
  await until('an id is given', async () => (await status(gw)).identity.assigned_id < 4294967295)
  await until(
    'the upstream has recovered',
    async () => (await status(up)).disk === undefined && (await status(up)).log.state === 'ok',
  )
  assert.ok(existsSync(join(up.dataDir, 'config.last-good.json')), 'what a damaged Config.json is replaced by')
  await until('facts are acknowledged', async () => (await status(gw)).uplinks.up.acked > 5)

  // while running: records that the upstream has only in RAM are not acknowledged
  upDisk.fill()
  await until('the upstream is degraded', async () => (await status(up)).log.state === 'degraded')
  const acked = (await status(gw)).uplinks.up.acked
  const there = await facts(up)
  await until('more is received', async () => (await facts(up)) > there + 5)
  assert.equal((await status(gw)).uplinks.up.acked, acked)
  upDisk.free()
  await until('it is acknowledged when it is kept', async () => (await status(gw)).uplinks.up.acked > acked + 5)

  // the gateway itself starts on a read-only disk with earlier data, and forwards
  await gw.stop()
  const before = gw.logKeys()
  gwDisk.remount('ro')
  await gw.start(gwArgs, gwWeb)
  assert.match(gw.output, /the lock is in RAM only: file system is read-only \(EROFS\)/)
  const seen = await facts(up)
  await until('it forwards from RAM', async () => (await facts(up)) > seen + 10)
  assert.deepEqual(
    [(await status(gw)).disk.in_ram.includes('the lock'), (await status(gw)).log.state],
    [true, 'degraded'],
  )
  assert.equal(gw.run('config-set', '--key', 'device_id', '--value', 'X', '--json').code, 0, 'its socket is known')
  gwDisk.remount('rw')
  gwDisk.fill()
  await until('now it is full', async () => (await status(gw)).log.reason === 'disk full (ENOSPC)')
  gwDisk.free()
  await until(
    'the gateway has recovered',
    async () => (await status(gw)).disk === undefined && (await status(gw)).log.state === 'ok',
  )
  assert.equal((await status(gw)).log.lost, 0)
  await until('the upstream has all', async () => (await status(gw)).uplinks.up.backlog < 3)
  await gw.stop()
  const kept = gw.logKeys()
  assert.ok(before.every(key => kept.includes(key)))
  assert.ok(kept.length > before.length + 10, 'the records of RAM are on the disk')
  const set = new Set(await databaseKeys(upWeb, token))
  assert.deepEqual(
    kept.filter(key => !set.has(key)),
    [],
  )
  await up.stop()
})

test('a data directory of another user that is readable is a state with a reason, and chmod fixes it', {
  skip,
}, async () => {
  const web = await freePort()
  chmodSync(dir, 0o755)
  const gw = new Machine(
    join(dir, 'other'),
    'run',
    { gateway: { sources: [{ name: 'cpu', type: 'cpu', interval_ms: 100 }] } },
    [...['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']],
  )
  // that user may be unable to read the checkout
  gw.program = join(dir, 'os-node.js')
  copyFileSync(script, gw.program)
  machines.push(gw)
  mkdirSync(gw.dataDir)
  await gw.start(['--port', String(web)], web)
  assert.match(gw.output, /the lock is in RAM only: no permission \(EACCES\)/)
  assert.ok((await answerOf(gw, 'status')).log.pending > 0)
  for (const folder of [gw.dir, gw.dataDir]) chmodSync(folder, 0o777)
  await until(
    'it heals',
    async () => (await answerOf(gw, 'status')).disk === undefined && (await answerOf(gw, 'status')).log.state === 'ok',
  )
  await gw.stop()
  assert.equal(gw.ended?.code ?? 0, 0)
})

test('64 descriptors are enough to start, and running out of them ends nothing and loses nothing', {
  skip,
}, async () => {
  const web = await freePort()
  const gw = new Machine(join(dir, 'few'), 'run', { gateway: { log: { commit_interval_ms: 200 } } }, [
    'prlimit',
    '--nofile=64:64',
  ])
  machines.push(gw)
  await gw.start(['--port', String(web)], web)
  const { pid } = gw
  const allow = (files: number): unknown => execFileSync('prlimit', ['--pid', String(pid), `--nofile=${files}:64`])
  await until('the sources are open', () => /cpu: up/.test(gw.output))
  const before = await answerOf(gw, 'status')
  assert.deepEqual([before.guard.files.limit, before.log.state], [64, 'ok'])
  allow(10)
  // its sources keep their files open: a reload opens one
  process.kill(pid!, 'SIGHUP')
  await until('a file cannot be opened', () => /EMFILE/.test(gw.output))
  const silent = Date.now()
  await sleep(3000)
  allow(64)
  await until('it logs on', async () => (await answerOf(gw, 'status')).log.records > before.log.records)
  const now = await answerOf(gw, 'status')
  assert.deepEqual([gw.ended, now.log.lost, now.log.state], [undefined, 0, 'ok'])
  assert.ok(now.guard.files.refused > 0, gw.output)
  await gw.stop()
  // the files read by sources of this machine stay open
  assert.doesNotMatch(gw.output, /cpu: down/)
  const read = gw.logKeys().map(key => Number(key.split(' ')[1]))
  assert.ok(
    read.some(time => time > silent && time < silent + 3000),
    'read while no descriptor was left',
  )
  assert.equal(gw.logKeys().length, new Set(gw.logKeys()).size)
})
