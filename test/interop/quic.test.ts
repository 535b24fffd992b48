// A gateway with a QUIC uplink and a server with a QUIC receiver, as real processes: everything is delivered once, also when
// the server is killed and when the medium is switched off and on meanwhile.
// Needs: openssl quic node24
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { answerOf } from '../lib/ask'
import { makeCerts } from '../lib/certs'
import { askControl } from '../lib/control'
import { databaseFacts, freePort, freeUdpPort, keyOf, Machine, removeDir, sleep, tempDir, until } from '../lib/gateway'
import { assertSame } from '../lib/same'

const dir = tempDir()
const machines: Machine[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  removeDir(dir)
})

test('QUIC between two os-nodes loses and duplicates nothing over a killed server and a medium switched off and on', async () => {
  const certs = makeCerts(join(dir, 'certs'))
  const [udp, quic] = [await freeUdpPort(), await freeUdpPort()]
  const [upWeb, gwWeb] = [await freePort(), await freePort()]
  const on = { RESOURCES: { transport_status: { udp: true, quic: true } } }
  const tls = { cert: certs.serverCert, key: certs.serverKey }
  const up = new Machine(join(dir, 'up'), 'serve', {
    ...on,
    gateway: { receivers: [{ name: 'q', medium: 'quic', host: '127.0.0.1', port: quic, tls }] },
  })
  const types = ['cpu', 'memory', 'uptime']
  const config = (sources: object[]): Record<string, unknown> => ({
    ...on,
    device_id: 'GW1',
    gateway: {
      sources,
      uplinks: [{ name: 'up', medium: 'QUIC', host: 'localhost', port: quic, tls: { ca: certs.ca } }],
      log: { commit_interval_ms: 100 },
    },
  })
  const gw = new Machine(join(dir, 'gw'), 'run', config(types.map(type => ({ name: type, type, interval_ms: 100 }))))
  machines.push(up, gw)
  const serveArgs = ['--host', '127.0.0.1', '--port', String(udp), '--web-port', String(upWeb)]
  const { token } = up.json('token', '--new') as { token: string }
  await up.start(serveArgs, upWeb)
  // the server gives this gateway its id over UDP
  assert.equal(gw.run('ensure-id', '--host', '127.0.0.1', '--port', String(udp)).code, 0)
  await gw.start(['--port', String(gwWeb)], gwWeb)
  const uplink = async (): Promise<{ acked: number; backlog: number; delivery: string }> =>
    (await askControl(gw.dataDir, 'status')).uplinks.up
  await until('packets are acknowledged', async () => (await uplink()).acked > 10)
  assert.equal((await uplink()).delivery, 'acked')
  const item = async (machine: Machine) =>
    (
      (await answerOf(machine, 'transport-status')).items as {
        name: string
        links: { name: string; state: string; reason?: string }[]
      }[]
    ).find(({ name }) => name === 'QUIC')!

  await up.stop('SIGKILL')
  await sleep(500)
  await up.start(serveArgs, upWeb)
  const after = (await uplink()).acked
  await until('it goes on after the kill', async () => (await uplink()).acked > after + 10)

  // meanwhile: the receiving end is switched off by command, on again over HTTP
  assert.deepEqual(up.json('transporter-toggle', '--name', 'quic', '--disable'), {
    name: 'QUIC',
    enabled: false,
    via: 'gateway',
  })
  assert.deepEqual((await item(up)).links, [{ name: 'q', state: 'down', reason: 'QUIC is switched off' }])
  assert.equal((await answerOf(up, 'status')).links.udp.state, 'up', 'the other receiver stays')
  await sleep(500)
  const answer = await fetch(`http://127.0.0.1:${upWeb}/api/transport`, {
    method: 'POST',
    headers: { 'X-Admin-Token': token, 'Content-Type': 'application/json' },
    body: '{"medium":"Quic","enabled":true}',
  })
  assert.deepEqual([answer.status, await answer.json()], [200, { ok: true, medium: 'QUIC', enabled: true }])
  const listening = async () => (await item(up)).links.find(({ state }) => state === 'up')
  assert.equal((await until('it listens again', listening)).name, 'q')
  const before = (await uplink()).acked
  await until('it goes on after the switch', async () => (await uplink()).acked > before + 10)
  assert.deepEqual(up.json('reload-protocol', '--medium', 'QUIC'), { medium: 'QUIC', reloaded: true, via: 'gateway' })

  // the sending end: readings taken meanwhile wait in the log
  gw.json('transporter-toggle', '--name', 'QUIC', '--disable')
  assert.deepEqual((await item(gw)).links, [{ name: 'up', state: 'down', reason: 'QUIC is switched off' }])
  await sleep(1000)
  assert.deepEqual(gw.json('transporter-toggle', '--name', 'quic', '--enable').enabled, true)
  const waits = (await askControl(gw.dataDir, 'status')).log.last_seq as number
  await until('it is up again and what waited is delivered', async () => {
    const { links, uplinks } = await askControl(gw.dataDir, 'status')
    return links.up.state === 'up' && uplinks.up.cursor >= waits
  })

  await gw.stop('SIGKILL')
  gw.configure(config([]))
  await gw.start(['--port', String(gwWeb)], gwWeb)
  await until('everything is delivered', async () => (await uplink()).backlog === 0)
  await gw.stop()
  const sent = gw.logFacts()
  const got = await until('the view has every record', async () => {
    const facts = await databaseFacts(upWeb, token)
    return facts.length >= sent.length ? facts : null
  })
  assert.ok(sent.length > 30)
  assert.equal(new Set(sent.map(keyOf)).size, sent.length, 'no fact is in the log twice')
  assertSame(sent, got)
  await up.stop()
})
