// A gateway and its upstream as real processes. A backup is taken while the gateway runs; the gateway continues with other readings,
// and is lost with its data. Restored from the old backup into a new directory it continues: the upstream has each reading once, none
// with a wrong value, and no record number is used twice. Then the upstream is replaced in the same way: no id is assigned twice.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { askControl } from '../lib/control'
import { freePort, freeUdpPort, Machine, removeDir, sensorsOf, tempDir, until } from '../lib/gateway'

const dir = tempDir()
const sql = { sql: { enabled: false } }
let gw: Machine
let up: Machine
after(async () => {
  await gw?.stop('SIGKILL')
  await up?.stop('SIGKILL')
  removeDir(dir)
})

/** The readings: value by device. The value identifies the reading, the kind determines its sensors and so its template. */
const measured = new Map<string, { kind: number; value: number }>()

async function measure(from: number, count: number, kinds: readonly number[]): Promise<void> {
  for (let n = from; n < from + count; n++) {
    const kind = kinds[n % kinds.length]!
    const device_id = `D${n}`
    const sensors = Array.from({ length: 1 + kind }, (_, k) => [`S${kind}${k}`, 'OK', n + k / 4, 'Cel'])
    measured.set(device_id, { kind, value: n })
    await askControl(gw.dataDir, 'transmit', { sensors: JSON.stringify(sensors), 'device-id': device_id })
  }
}

const arrived = (): Promise<unknown> =>
  until('everything is upstream', async () => {
    const seen = new Set((await up.facts()).map(({ id }) => id))
    return [...measured.keys()].every(id => seen.has(id))
  })

async function startBoth(): Promise<void> {
  const [port, web, upWeb] = await Promise.all([freeUdpPort(), freePort(), freePort()])
  const uplink = { name: 'up', medium: 'UDP', host: '127.0.0.1', port }
  const gateway = { sources: [], uplinks: [uplink], log: { commit_interval_ms: 50 } }
  const web_user = { auth_enabled: true }
  up = new Machine(join(dir, 'up'), 'serve', { device_id: 'UP', storage: sql })
  gw = new Machine(join(dir, 'gw'), 'run', { device_id: 'GW1', storage: sql, gateway, web_user })
  await up.start(['--host', '127.0.0.1', '--port', String(port), '--web-port', String(upWeb)], upWeb)
  await gw.start(['--port', String(web)], web)
  restart = {
    gw: () => gw.start(['--port', String(web)], web),
    up: () => up.start(['--host', '127.0.0.1', '--port', String(port), '--web-port', String(upWeb)], upWeb),
  }
  udp = port
  gwWeb = web
}
let restart: { gw(): Promise<void>; up(): Promise<void> }
let udp = 0
let gwWeb = 0

test('a lost gateway restored from an old backup on new hardware continues: nothing duplicated, nothing wrong, no number reused', async () => {
  await startBoth()
  await measure(0, 20, [0, 1])
  await arrived()
  const aid = (await gw.ask('status')).identity.assigned_id
  const file = join(dir, 'gw.backup')
  const made = gw.json('backup', file)
  assert.deepEqual([made.secrets, made.via], [false, 'local'])
  // the page downloads the same kind of file, and that is what is restored below
  const { token } = gw.json('token', '--new') as { token: string }
  const headers = { 'X-Admin-Token': token, 'Content-Type': 'application/json' }
  const answer = await fetch(`http://127.0.0.1:${gwWeb}/api/backup`, { method: 'POST', headers, body: '{}' })
  assert.equal(answer.status, 200)
  assert.match(String(answer.headers.get('content-disposition')), /filename="GW1\.backup"/)
  writeFileSync(file, Buffer.from(await answer.arrayBuffer()))
  // other sensors: templates whose TIDs the backup does not know
  await measure(100, 40, [2, 3, 4])
  await arrived()
  const before = (await gw.facts()).map(({ seq }) => Number(seq))
  const running = gw.run('restore', file, '--json')
  assert.equal(running.code, 4)
  assert.match(running.stdout, /"code":"LOCKED"/)
  await gw.stop('SIGKILL')
  rmSync(gw.dir, { recursive: true })

  mkdirSync(gw.dir)
  const restored = gw.json('restore', file)
  assert.deepEqual([restored.device_id, restored.assigned_id, restored.old_state], ['GW1', aid, null])
  await restart.gw()
  // other templates again, where a reused TID would be decoded with those of before
  await measure(200, 40, [5, 6, 7])
  await arrived()
  await until('the mark is gone', () => !existsSync(join(gw.dataDir, 'restored.json')))
  assert.ok(!existsSync(join(gw.dataDir, 'restore')))
  assert.equal((await gw.ask('status')).identity.assigned_id, aid)

  const upstream = (await up.facts()).filter(({ id }) => measured.has(id))
  assert.equal(new Set(upstream.map(({ id }) => id)).size, measured.size)
  for (const fact of upstream) {
    const { kind, value } = measured.get(fact.id)!
    const want = Array.from({ length: 1 + kind }, (_, k) => [`S${kind}${k}`, 'K', value + k / 4 + 273.15])
    assert.deepEqual(
      sensorsOf(fact).map(({ id, unit, value }) => [id, unit, Number(value?.toFixed(2))]),
      want,
      fact.id,
    )
  }
  assert.equal(upstream.length, measured.size, 'one of them is there twice')
  const now = (await gw.facts()).filter(({ id }) => Number(id.slice(1)) >= 200).map(({ seq }) => Number(seq))
  assert.equal(now.length, 40)
  assert.ok(Math.min(...now) > Math.max(...before), 'record numbers go on behind those that were used')
  assert.ok((await gw.json('log', 'verify')).ok)
})

test('a lost upstream restored from an old backup continues: ids granted since are not granted again, and values stay right', async () => {
  const ask = (name: string): number => {
    const device = new Machine(join(dir, name), 'run', { device_id: name, storage: sql })
    const { ok, assigned_id } = device.json('ensure-id', '--host', '127.0.0.1', '--port', String(udp))
    assert.equal(ok, true, name)
    return assigned_id
  }
  const first = ask('N1')
  const file = join(dir, 'up.backup')
  const passphrase = join(dir, 'passphrase')
  writeFileSync(passphrase, 'correct horse battery\n')
  up.json('backup', file, '--with-secrets', '--passphrase-file', passphrase)
  const since = ask('N2')
  // templates missing in the backup, of which the gateway continues to send DIFFs
  await measure(300, 30, [8, 9])
  await arrived()
  const token = readFileSync(join(up.dataDir, 'token.json'), 'utf8')
  await up.stop('SIGKILL')
  const wrong = join(dir, 'wrong')
  writeFileSync(wrong, 'another horse battery\n')
  assert.match(up.run('restore', file, '--passphrase-file', wrong, '--json').stdout, /"code":"E_PASSPHRASE"/)
  const restored = up.json('restore', file, '--passphrase-file', passphrase)
  assert.equal(restored.old_state, join(up.dataDir, 'restore/old-1'))
  assert.equal(readFileSync(join(up.dataDir, 'token.json'), 'utf8'), token)
  await restart.up()
  const fresh = ask('N3')
  assert.ok(![first, since].includes(fresh) && fresh > since, `${fresh}`)
  // what the upstream acknowledged after the backup is lost with it
  for (const id of [...measured.keys()]) if (Number(id.slice(1)) >= 300) measured.delete(id)
  await measure(400, 30, [8, 9])
  await arrived()
  for (const fact of await up.facts()) {
    const known = measured.get(fact.id)
    if (!known) continue
    const want = Array.from({ length: 1 + known.kind }, (_, k) => known.value + k / 4 + 273.15)
    assert.deepEqual(
      sensorsOf(fact).map(({ value }) => Number(value?.toFixed(2))),
      want,
      fact.id,
    )
  }
})
