// Hot reload of a complete gateway (R27), on real processes: by SIGHUP, by os-node reload, by POST /api/reload, by a write
// to a running gateway, and by all of them at the same time. Unchanged links keep their window, session and connection.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { askControl } from '../lib/control'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../lib/gateway'
import { assertSame } from '../lib/same'
import { Tap } from '../lib/tap'

interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the route gives
  body: any
}

async function world(t: TestContext) {
  const dir = tempDir()
  const [packets, road, upWeb, web] = await Promise.all([freeUdpPort(), freeUdpPort(), freePort(), freePort()])
  const source = (name: string, more: object = {}) => ({ name, type: name, interval_ms: 100, ...more })
  const uplink = { name: 'up', medium: 'UDP', host: '127.0.0.1', port: road }
  const config = (sources: object[], more: object = {}) => ({
    device_id: 'GW1',
    assigned_id: 5,
    storage: { sql: { enabled: false } },
    gateway: { sources, uplinks: [uplink], log: { commit_interval_ms: 50 }, ...more },
  })
  const up = new Machine(join(dir, 'up'), 'serve', { storage: { sql: { enabled: false } } })
  const gw = new Machine(join(dir, 'gw'), 'run', config([source('uptime'), source('memory')]))
  const tap = await Tap.open(road, packets)
  t.after(async () => {
    await gw.stop('SIGKILL')
    await up.stop('SIGKILL')
    tap.close()
    removeDir(dir)
  })
  const { token } = gw.json('token', '--new') as { token: string }
  await up.start(['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(upWeb)], upWeb)
  await gw.start(['--port', String(web)], web)
  const post = async (headers: Record<string, string> = { 'X-Admin-Token': token }): Promise<Answer> => {
    const answer = await fetch(`http://127.0.0.1:${web}/api/reload`, { method: 'POST', headers })
    return { status: answer.status, body: await answer.json() }
  }
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command gives
  const status = (): Promise<any> => askControl(gw.dataDir, 'status')
  const key = () => JSON.parse(readFileSync(join(gw.dataDir, 'secure_sessions.up.json'), 'utf8')).sessions['5']?.key_hex
  await until('a secure session', async () => (await status()).uplinks.up?.secure === 'secure')
  await until('its key is kept', key)
  return { gw, up, tap, source, uplink, config, post, status, key }
}

test('packets in flight of an unchanged uplink continue over a reload: same window, same session, nothing twice', async t => {
  const { gw, up, tap, source, config, post, status, key } = await world(t)
  const before = { key: key(), links: (await status()).links, boot: (await status()).log.first_seq }
  const plain = tap.packets('up').filter(({ packet }) => packet[0] === 0x3f).length
  // no answers: packets are in flight and not acknowledged
  tap.lose = (_, way) => way === 'down'
  const flying = await until('packets are in flight', async () => {
    const { up } = (await status()).uplinks
    return up.in_flight > 2 && up
  })
  gw.configure(config([source('uptime'), source('memory', { match: 'used' }), source('cpu')]))
  const { status: code, body } = await post()
  assert.equal(code, 200)
  assert.deepEqual(body.links.uplinks, { added: [], removed: [], changed: [], kept: ['up'] })
  assert.deepEqual(body.links.sources, { added: ['cpu'], removed: [], changed: ['memory'], kept: ['uptime'] })
  const after = await status()
  assert.ok(after.uplinks.up.in_flight >= flying.in_flight, 'the window was not emptied')
  assert.ok(after.uplinks.up.acked >= flying.acked, 'its counters were not begun anew')
  assert.deepEqual([after.links.up.opens, after.links.uptime.opens], [1, 1])
  assert.equal(after.links.up.since, before.links.up.since)
  tap.lose = () => false
  await until('it is acknowledged', async () => (await status()).uplinks.up.acked > flying.acked + flying.in_flight)
  assert.equal(key(), before.key)
  assert.equal((await status()).links.up.opens, 1)
  assert.equal(
    tap.packets('up').filter(({ packet }) => packet[0] === 0x3f).length,
    plain,
    'no new session was asked for',
  )

  gw.configure(config([]))
  process.kill(gw.pid!, 'SIGHUP')
  await until('the sources are gone', async () => Object.keys((await status()).links).join() === 'up')
  await until('all is delivered', async () => (await status()).uplinks.up.backlog === 0)
  await gw.stop()
  await up.stop()
  assertSame(gw.logFacts(), up.logFacts())
})

test('POST /api/reload refuses a broken and an invalid file with path and reason, and the running links continue', async t => {
  const { gw, source, config, post, status } = await world(t)
  assert.equal((await post({})).status, 401)
  const cases: [text: string, status: number, code: string, error: RegExp][] = [
    [
      JSON.stringify(config([source('uptime', { interval_ms: 1 })]), null, 2),
      400,
      'CONFIG_INVALID',
      /Config\.json:\d+.*gateway\.sources\.0\.interval_ms/,
    ],
    [JSON.stringify(config([source('smoke')])), 400, 'CONFIG_INVALID', /gateway\.sources\.0.*smoke/],
    ['{\n  "gateway": {\n', 500, 'CONFIG_SYNTAX', /Config\.json:\d+/],
  ]
  const facts = (await status()).intake.facts
  for (const [text, code, name, error] of cases) {
    writeFileSync(gw.config, text)
    const answer = await post()
    assert.deepEqual([answer.status, answer.body.ok, answer.body.code], [code, false, name])
    assert.match(answer.body.error, error)
    const { links, config_problem } = await status()
    assert.deepEqual([links.up.opens, links.uptime.opens, links.memory.opens], [1, 1, 1])
    assert.match(config_problem, error)
    const ran = gw.run('reload')
    assert.equal(ran.code, 3)
    assert.match(ran.stderr, error)
  }
  await until('readings continue', async () => (await status()).intake.facts > facts)
  gw.configure(config([source('uptime'), source('memory')]))
  assert.equal((await post()).status, 200)
  assert.equal((await status()).config_problem, undefined)
})

test('many simultaneous reloads end with the configuration of the file, each link opened once', async t => {
  const { gw, source, config, post, status } = await world(t)
  gw.configure(config([source('uptime'), source('cpu')]))
  // a token seen before is not hashed again
  assert.equal((await post()).status, 200)
  gw.configure(config([source('uptime'), source('cpu'), source('disk')]))
  const asked = Array.from({ length: 12 }, (_, k) => (k % 2 ? post() : askControl(gw.dataDir, 'reload')))
  for (let k = 0; k < 4; k++) process.kill(gw.pid!, 'SIGHUP')
  const answers = await Promise.all(asked)
  for (const answer of answers) assert.ok(answer.status === undefined || answer.status === 200, JSON.stringify(answer))
  const { links } = await status()
  assert.deepEqual(Object.keys(links).sort(), ['cpu', 'disk', 'up', 'uptime'])
  assert.deepEqual([links.up.opens, links.uptime.opens, links.cpu.opens, links.disk.opens], [1, 1, 1, 1])
})

test('a write to a running gateway opens and closes uplinks automatically', async t => {
  const { gw, uplink, status } = await world(t)
  const second = { name: 'second', medium: 'UDP', host: '127.0.0.1', port: await freeUdpPort() }
  const set = (value: object[]) => {
    const ran = gw.run('config-set', '--key', 'gateway.uplinks', '--value', JSON.stringify(value))
    assert.equal(ran.code, 0, ran.stderr)
  }
  set([uplink, second])
  await until('the second is tried', async () => (await status()).links.second)
  assert.equal((await status()).links.up.opens, 1)
  set([uplink])
  await until('it is gone', async () => (await status()).links.second === undefined)
  assert.equal((await status()).links.up.opens, 1)
  assert.deepEqual(Object.keys((await status()).uplinks), ['up'])
})
