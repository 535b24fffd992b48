// An update and its rollback with an older version: a gateway and its upstream of an earlier commit leave data, this version continues
// on them, and then the earlier one on those of this version, as after a rollback on a board. Identity, token, configuration and every
// reading are there each time, and the upstream has each reading once, with its value: those, too, that wait in a log of the other version.
// So is a sealed window of the database.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { FlashLog } from '../../src/log'
import {
  databaseFacts,
  freePort,
  freeUdpPort,
  type LoggedFact,
  Machine,
  removeDir,
  script,
  sensorsOf,
  tempDir,
  until,
} from '../lib/gateway'
import { olderBundle } from '../lib/older'

const dir = tempDir()
const gw = new Machine(join(dir, 'gw'), 'run', {})
const up = new Machine(join(dir, 'up'), 'serve', { device_id: 'UP' })
after(async () => {
  await gw.stop('SIGKILL')
  await up.stop('SIGKILL')
  removeDir(dir)
})

const began = Date.now()
let older = ''
let startGateway: () => Promise<void>
let startUpstream: () => Promise<void>
let web = 0
let token = ''
before(async () => {
  older = await olderBundle()
  const [port, gwWeb, upWeb] = await Promise.all([freeUdpPort(), freePort(), freePort()])
  const uplink = { name: 'up', medium: 'UDP', host: '127.0.0.1', port }
  gw.configure({
    gateway: { sources: [], uplinks: [uplink], log: { commit_interval_ms: 50 } },
    web_user: { auth_enabled: true },
  })
  web = gwWeb
  startGateway = () => gw.start(['--port', String(gwWeb)], gwWeb)
  startUpstream = () => up.start(['--host', '127.0.0.1', '--port', String(port), '--web-port', String(upWeb)], upWeb)
})

/** a sealed window has 32,768 packets */
const BULK = 33_000
/** Readings of a device, as the log of this version has them: more than the database holds in one window. */
async function bulk(): Promise<void> {
  const log = await FlashLog.open({ dir: join(gw.dataDir, 'log') })
  const from = Date.now() - 10 * BULK
  for (let k = 0; k < BULK; k++) {
    const sensors = [{ id: 'S', status: 'OK', unit: 'K', value: k }]
    log.appendFact({ id: 'BULK', state: 'ONLINE', tRaw: from + k, aid: 4_294_967_295, sensors }, { medium: 'local' })
    if (k % 1000 === 0) await log.flush()
  }
  await log.close()
}

const windows = (): string[] => readdirSync(join(gw.dataDir, 'sql')).filter(name => name.endsWith('.window'))

async function bulkInDatabase(): Promise<number> {
  const url = `http://127.0.0.1:${web}/api/data/packets?device_id=BULK&limit=1`
  const answer = await fetch(url, { headers: { 'X-Admin-Token': token } })
  return answer.ok ? ((await answer.json()) as { total: number }).total : 0
}

/** The readings: value by device. */
const measured = new Map<string, number>()

/** Readings with templates that both versions have seen, and some that only this one has. While the upstream is away an answer takes 5 s. */
async function measure(prefix: string, count: number): Promise<void> {
  const readings = Array.from({ length: count }, (_, n) => ({
    id: `${prefix}${n}`,
    kinds: n % 2 === 0 ? ['A', 'B'] : [prefix],
  }))
  const sent = readings.map(({ id, kinds }) => {
    const value = measured.size
    measured.set(id, value)
    const sensors = kinds.map((kind, k) => [`S${kind}`, 'OK', value + k, 'Cel'])
    return gw.ask('transmit', { sensors: JSON.stringify(sensors), 'device-id': id })
  })
  await Promise.all(sent)
}

/** `facts` has every reading once, with its value. */
function assertAll(facts: LoggedFact[], where: string): void {
  const own = facts.filter(({ id }) => measured.has(id))
  assert.deepEqual(own.map(({ id }) => id).sort(), [...measured.keys()].sort(), where)
  for (const fact of own) {
    const [first] = sensorsOf(fact)
    assert.equal(Number(first!.value!.toFixed(2)), measured.get(fact.id)! + 273.15, `${where}: ${fact.id}`)
  }
}

const arrived = (): Promise<unknown> =>
  until('everything is upstream', async () => {
    const seen = new Set((await up.facts()).map(({ id }) => id))
    return [...measured.keys()].every(id => seen.has(id))
  })

test('data of an older version are continued, and the older version continues those of this one after a rollback', async t => {
  let identity: unknown
  await bulk()
  let sealed = ''
  const versions: [string, string][] = [
    ['old', older],
    ['new', script],
    ['back', older],
    ['again', script],
  ]
  for (const [name, program] of versions) {
    Object.assign(gw, { program })
    Object.assign(up, { program })
    await startGateway()
    if (name === 'old') token = String(gw.json('token', '--new').token)
    else assertAll(await gw.facts(), `${name}: log`)
    await measure(`${name}-alone-`, 10)
    // what the other version left behind waits for this moment
    await startUpstream()
    await arrived()
    await measure(name, 20)
    await arrived()
    const { device_id, assigned_id } = (await gw.ask('status')).identity
    identity ??= { device_id, assigned_id }
    assert.deepEqual({ device_id, assigned_id }, identity, name)
    assertAll(await gw.facts(), `${name}: log`)
    assertAll(await up.facts(), `${name}: upstream`)
    const since = `&since=${Math.floor(began / 1000) - 1}`
    await until('the database has them', async () => (await databaseFacts(web, token, since)).length >= measured.size)
    assertAll(await databaseFacts(web, token, since), `${name}: database`)
    await until('a window is sealed', () => windows().length > 0)
    sealed ||= windows()[0]!
    assert.ok(windows().includes(sealed), `${name}: ${windows()}`)
    assert.equal(await bulkInDatabase(), BULK, name)
    assert.equal((await fetch(`http://127.0.0.1:${web}/api/dashboard`)).status, 401)
    // the upstream is away, and a part of the readings waits for the next version
    await up.stop()
    await measure(`${name}-waits-`, 10)
    t.diagnostic(`${name}: ${measured.size} readings, os-node ${name}`)
    // a version on trial ends by a restart that no user ordered
    await gw.stop(name === 'new' ? 'SIGKILL' : 'SIGTERM')
  }
})
