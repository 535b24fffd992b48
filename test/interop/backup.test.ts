// A gateway and its upstream as real processes. A backup is taken while the gateway runs; the gateway continues with other readings,
// and is lost with its data. Restored from the old backup into a new directory it continues: the upstream has each reading once, none
// with a wrong value, and no record number is used twice. Then the upstream is replaced in the same way: no id is assigned twice.
// Backups of a busy receiver, whose log rolls and drops segments while they are written, are consistent.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { askControl } from '../lib/control'
import { freePort, freeUdpPort, keyOf, Machine, removeDir, script, sensorsOf, tempDir, until } from '../lib/gateway'

interface Gap {
  reason: string
  from: number
  to: number
}

const dir = tempDir()
const sql = { sql: { enabled: false } }
let gw: Machine
let up: Machine
const others: Machine[] = []
after(async () => {
  await gw?.stop('SIGKILL')
  await up?.stop('SIGKILL')
  for (const machine of others) await machine.stop('SIGKILL')
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

/** The id that a device gets over UDP, from an address of its own: 127.16.0.1 upwards. */
async function idOf(port: number, k: number): Promise<number> {
  // a test that failed does not wait for an answer
  const socket = createSocket('udp4').unref()
  await new Promise<void>(resolve => socket.bind(0, `127.16.${k >> 7}.${1 + (k & 127)}`, resolve))
  // a note, so that the allocator writes its file again and again
  const request = Buffer.concat([
    Buffer.of(1, 0, 1),
    Buffer.from(JSON.stringify({ device_id: `N${k}`, note: 'x'.repeat(900) })),
  ])
  const ask = (): void => socket.send(request, port, '127.0.0.1')
  const again = setInterval(ask, 500).unref()
  const answer = await new Promise<Buffer>(resolve => {
    socket.on('message', bytes => bytes[0] === 2 && resolve(bytes))
    ask()
  })
  clearInterval(again)
  await new Promise(resolve => socket.send(Buffer.of(5, 0, 1), port, '127.0.0.1', resolve))
  socket.close()
  return answer.readUInt32BE(3)
}

test('a backup of a busy receiver has each reading committed before it or its number among the dropped ones, and no id twice', async () => {
  const config = { device_id: 'BUSY', storage: sql, gateway: { log: { max_bytes: 1 << 20, commit_interval_ms: 50 } } }
  const busy = new Machine(join(dir, 'busy'), 'serve', config)
  others.push(busy)
  const start = async (machine: Machine): Promise<number> => {
    const [port, web] = await Promise.all([freeUdpPort(), freePort()])
    await machine.start(['--host', '127.0.0.1', '--port', String(port), '--web-port', String(web)], web)
    return port
  }
  const port = await start(busy)
  const load = { on: true }
  let [readings, devices] = [0, 0]
  /** id by device, as the receiver assigned it */
  const assigned = new Map<number, number>()
  // a segment takes about 250 of them
  const text = 'n'.repeat(60)
  const measuring = Array.from({ length: 8 }, async () => {
    while (load.on) {
      const n = readings++
      const sensors = JSON.stringify(Array.from({ length: 6 }, (_, k) => [`${text}${k}`, 'OK', n + k, 'K']))
      await busy.ask('transmit', { sensors, 'device-id': `R${n}` })
    }
  })
  const asking = Array.from({ length: 4 }, async () => {
    while (load.on) {
      const k = devices++
      assigned.set(k, await idOf(port, k))
    }
  })
  const log = async () =>
    (await busy.ask('status')).log as { dropped: number; first_seq: number; committed_seq: number }
  const made: { file: string; facts: Awaited<ReturnType<Machine['facts']>>; upTo: number; ids: Map<number, number> }[] =
    []
  try {
    await until('the log drops segments', async () => (await log()).dropped > 0)
    // three of them while segments were dropped and ids assigned
    for (let busyOnes = 0; busyOnes < 3; ) {
      const before = await log()
      const [ids, facts] = [new Map(assigned), await busy.facts()]
      const file = join(dir, `busy${made.length}.backup`)
      const place = ['--config', busy.config, '--data-dir', busy.dataDir]
      await promisify(execFile)(process.execPath, [script, 'backup', file, ...place])
      if ((await log()).first_seq > before.first_seq && assigned.size > ids.size) busyOnes++
      made.push({ file, facts, upTo: before.committed_seq, ids })
      assert.ok(made.length < 30)
    }
  } finally {
    load.on = false
  }
  await Promise.all([...measuring, ...asking])
  assert.equal(new Set(assigned.values()).size, assigned.size)
  await busy.stop('SIGKILL')

  for (const [k, { file, facts, upTo, ids }] of made.entries()) {
    const restored = new Machine(join(dir, `restored${k}`), 'serve', config)
    others.push(restored)
    assert.equal(restored.json('restore', file).code, undefined)
    const whole = restored.json('log', 'verify')
    assert.ok(whole.ok, JSON.stringify(whole))
    const again = await start(restored)
    for (const [device, id] of ids) assert.equal(await idOf(again, device), id, `the id of N${device}`)
    const fresh = await idOf(again, devices + k)
    assert.ok(![...assigned.values()].includes(fresh), `${fresh} is of another device`)
    await restored.stop('SIGKILL')
    // a drop that the backup has without its note is named by the start
    const { ok, first_seq, lost, gaps } = restored.json('log', 'verify')
    assert.ok(ok, JSON.stringify(gaps))
    const kept = new Map(restored.logFacts().map(fact => [Number(fact.seq), fact]))
    for (const fact of facts.filter(({ seq }) => Number(seq) <= upTo)) {
      const seq = Number(fact.seq)
      if (seq >= first_seq) assert.deepEqual(kept.get(seq), fact)
      else
        assert.ok(
          gaps.some(({ reason, from, to }: Gap) => reason === 'dropped' && from <= seq && seq <= to),
          `record ${seq} is neither there nor among the dropped ones: ${JSON.stringify({ first_seq, gaps: gaps.slice(-5) })}`,
        )
    }
    assert.ok(lost > 0 && [...kept.keys()].some(seq => seq > upTo - 100))
    assert.equal(new Set([...kept.values()].map(keyOf)).size, kept.size, 'no reading twice')
  }
})
