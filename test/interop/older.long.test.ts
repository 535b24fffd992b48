// An update and its rollback with an older version: a gateway and its upstream of an earlier commit leave data, this version continues
// on them, and then the earlier one on those of this version, as after a rollback on a board. Identity, token, configuration and every
// reading are there each time, and the upstream has each reading once, with its value: those, too, that wait in a log of the other version.
// The earlier version is built once, and kept in .build.
// Needs: history
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import {
  databaseFacts,
  freePort,
  freeUdpPort,
  Machine,
  removeDir,
  root,
  script,
  sensorsOf,
  tempDir,
  until,
} from '../lib/gateway'

/** before changes of the log's headers, of the allocator's start and of the packets that the log keeps */
const OLDER = process.env.OLDER ?? '251cdd9f28268a9c1b00064b314fbc93b982904a'
const dir = tempDir()
const gw = new Machine(join(dir, 'gw'), 'run', {})
const up = new Machine(join(dir, 'up'), 'serve', { device_id: 'UP' })
after(async () => {
  await gw.stop('SIGKILL')
  await up.stop('SIGKILL')
  removeDir(dir)
})

/** The bundle of the earlier commit. */
function builtOlder(): string {
  const kept = join(root, '.build', `older-${OLDER}`)
  const bundle = join(kept, 'dist/os-node.js')
  if (existsSync(bundle)) return bundle
  const fresh = `${kept}.new`
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(fresh, { recursive: true })
  const run = (program: string, args: string[], more: object = {}) =>
    execFileSync(program, args, { cwd: root, stdio: ['pipe', 'pipe', 'inherit'], maxBuffer: 1 << 28, ...more })
  run('tar', ['-x', '-C', fresh], { input: run('git', ['archive', OLDER]) })
  // its list of packages names files below its own folder
  run('cp', ['-al', 'node_modules', fresh])
  if (existsSync(join(root, '.cache'))) run('cp', ['-al', '.cache', fresh])
  run(process.execPath, ['build.mjs', '--quiet', '--no-types'], { cwd: fresh })
  renameSync(fresh, kept)
  return bundle
}

let older = ''
let startGateway: () => Promise<void>
let startUpstream: () => Promise<void>
let web = 0
let token = ''
before(async () => {
  older = builtOlder()
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

/** The readings: value by device. */
const measured = new Map<string, number>()

/** Readings with templates that both versions have seen, and some that only this one has. */
async function measure(prefix: string, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const id = `${prefix}${n}`
    const kinds = n % 2 === 0 ? ['A', 'B'] : [prefix]
    const value = measured.size
    measured.set(id, value)
    const sensors = kinds.map((kind, k) => [`S${kind}`, 'OK', value + k, 'Cel'])
    await gw.ask('transmit', { sensors: JSON.stringify(sensors), 'device-id': id })
  }
}

interface Fact {
  id: string
}
/** `facts` has every reading once, with its value. */
function assertAll(facts: (Fact & Record<string, unknown>)[], where: string): void {
  const own = facts.filter(({ id }) => measured.has(id))
  assert.deepEqual(own.map(({ id }) => id).sort(), [...measured.keys()].sort(), where)
  for (const fact of own) {
    const [first] = sensorsOf(fact as never)
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
    await until('the database has them', async () => (await databaseFacts(web, token)).length >= measured.size)
    assertAll(await databaseFacts(web, token), `${name}: database`)
    assert.equal((await fetch(`http://127.0.0.1:${web}/api/dashboard`)).status, 401)
    // the upstream is away, and a part of the readings waits for the next version
    await up.stop()
    await measure(`${name}-waits-`, 10)
    t.diagnostic(`${name}: ${measured.size} readings, os-node ${name}`)
    // a version on trial ends by a restart that nobody ordered
    await gw.stop(name === 'new' ? 'SIGKILL' : 'SIGTERM')
  }
})
