// Receivers in parallel (decision 0067): two `serve` with PostgreSQL, which also has the ids. A gateway moves from one to the other over UDP, and
// both share a subscription at a broker; one is killed. Over QUIC it moves by the rule of nftables in docs/deploy-upstream.md, in a
// network namespace. Nothing is lost or duplicated, ids stay, a move costs one new key.
// Needs: nftables conntrack openssl quic quicnode
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { makeCerts } from '../lib/certs'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../lib/gateway'
import { startMosquitto } from '../lib/servers'
import { SqlServer } from '../lib/sqlservers'

/** set in the network namespace of the test of QUIC */
const INSIDE = 'OS_NODE_RECEIVERS_INSIDE'
const dir = tempDir()
const machines: Machine[] = []
let server: SqlServer

before(async () => {
  server = await SqlServer.start('postgresql')
})
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  await server?.stop()
  removeDir(dir)
})

const web_user = { auth_enabled: false }
const RESOURCES = { application_status: { mqtt: true }, transport_status: { udp: true, quic: true } }
/** The Node of gateways and receivers: QUIC needs a newer one than the others. */
let node = process.execPath

/** A receiver on that UDP port, and how it is started. */
async function receiver(name: string, sql: object, receivers: object[] = []) {
  const machine = new Machine(join(dir, name), 'serve', {
    ...{ web_user, RESOURCES, storage: { sql }, gateway: { receivers } },
    security_settings: { id_lease: { store: 'postgresql' } },
  })
  machine.node = node
  machines.push(machine)
  const [port, web] = [await freeUdpPort(), await freePort()]
  const start = () => machine.start(['--host', '127.0.0.1', '--port', String(port), '--web-port', String(web)], web)
  await start()
  return { machine, port, start }
}

/** A gateway whose sources run until quiet(), which restarts it without any; `idFrom`: the UDP port where it gets its id before it starts. */
async function sender(name: string, uplink: object, idFrom?: number) {
  const config = (interval_ms: number) => ({
    ...{ device_id: name, web_user, RESOURCES },
    gateway: {
      sources: interval_ms > 0 ? [{ name: 'cpu', type: 'cpu', interval_ms }] : [],
      uplinks: [{ name: 'up', ...uplink }],
      log: { commit_interval_ms: 100 },
    },
  })
  const machine = new Machine(join(dir, name), 'run', config(100))
  machine.node = node
  machines.push(machine)
  if (idFrom) assert.equal(machine.run('ensure-id', '--host', '127.0.0.1', '--port', String(idFrom)).code, 0)
  const web = await freePort()
  const start = () => machine.start(['--port', String(web)], web)
  await start()
  const status = () => machine.ask('status')
  const more = async (count: number): Promise<void> => {
    const { acked } = (await status()).uplinks.up
    await until('packets are acknowledged', async () => (await status()).uplinks.up.acked >= acked + count)
  }
  const quiet = async (): Promise<void> => {
    await machine.stop('SIGTERM')
    machine.configure(config(0))
    await start()
    await until('nothing is left', async () => (await status()).uplinks.up.backlog === 0)
  }
  return { machine, status, more, quiet }
}

/** The database has what the gateway's log has, each once. */
async function assertStored(receivers: readonly Machine[], database: string, gateway: Machine): Promise<void> {
  for (const machine of receivers)
    await until('the database has everything', async () => {
      const { state, lag_records } = (await machine.ask('status')).storage
      return state === 'up' && lag_records === 0
    })
  const stored = async (): Promise<string[]> => {
    const rows = await server.ask('SELECT device_id, t_raw FROM os_packets_data', database)
    return rows.map(([id, tRaw]) => `${id} ${Number(tRaw)}`).sort()
  }
  // the broker may still have some for the receiver that returned, and the gateway may have to send refused ones again
  const keys = gateway.logKeys()
  await until('as many packets are stored as there are', async () => (await stored()).length >= keys.length).catch(
    async (cause: unknown) => {
      const present = new Set(await stored())
      const missing = keys.filter(key => !present.has(key))
      const printed = [gateway, ...receivers].map(({ output }) => output)
      throw new Error(`missing of ${keys.length}: ${missing.join(', ')}\n${printed.join('\n')}`, { cause })
    },
  )
  assert.deepEqual(await stored(), keys)
}

/** Keys that devices confirmed since the receiver started, and how many of them replaced another one. */
async function keysOf({ machine }: { machine: Machine }): Promise<number[]> {
  const { channels_confirmed, keys_replaced } = (await machine.ask('status')).sessions
  return [channels_confirmed, keys_replaced]
}

const udpAndMqtt = (): void => {
  test('UDP: a gateway that moves to another receiver keeps its id, gets one new key, and loses and duplicates nothing', async t => {
    const sql = await server.fresh()
    const [one, two] = [await receiver('one', sql), await receiver('two', sql)]
    // as a balancer does: every datagram is sent to the current receiver
    let target = one.port
    const [front, back] = [createSocket('udp4'), createSocket('udp4')]
    const port = await freeUdpPort()
    let gatewayPort = 0
    front.on('message', (bytes, from) => {
      gatewayPort = from.port
      back.send(bytes, target, '127.0.0.1')
    })
    back.on('message', bytes => front.send(bytes, gatewayPort, '127.0.0.1'))
    await new Promise<void>(resolve => back.bind(0, '127.0.0.1', resolve))
    await new Promise<void>(resolve => front.bind(port, '127.0.0.1', resolve))
    t.after(() => {
      front.close()
      back.close()
    })
    const gateway = await sender('MOVER', { medium: 'UDP', host: '127.0.0.1', port })
    const { machine, status, more, quiet } = gateway
    await more(10)
    const id = (await status()).identity.assigned_id as number
    target = two.port
    await more(10)
    // the first one stays away, and what it accepted is in the database when it returns
    await one.machine.stop('SIGKILL')
    await more(10)
    await one.start()
    target = one.port
    await more(10)
    assert.equal((await status()).identity.assigned_id, id)
    const { ids, sessions } = await two.machine.ask('status')
    assert.deepEqual([ids.source, ids.allocated, ids.problem], ['postgresql', 1, undefined])
    assert.equal(sessions.aids, 1, JSON.stringify(sessions))
    // the first one has its old key in its file, and replaced that
    assert.deepEqual(
      [await keysOf(two), await keysOf(one)],
      [
        [1, 0],
        [1, 1],
      ],
    )
    // without the database a device that has an id continues, and one that requests an id gets a reason
    await server.server.kill()
    await until('it is a state', async () => (await one.machine.ask('status')).storage.state === 'down')
    await more(10)
    const stranger = await sender('STRANGER', { medium: 'UDP', host: '127.0.0.1', port: one.port })
    const problem = await until('it is reported', async () => (await one.machine.ask('status')).ids.problem)
    assert.match(problem, /127\.0\.0\.1|ended the connection|ECONNREFUSED/)
    assert.equal((await stranger.status()).identity.assigned_id, 0xffff_ffff)
    await server.server.restart()
    await until('it gets an id', async () => (await stranger.status()).identity.assigned_id === id + 1)
    await stranger.machine.stop('SIGKILL')
    await quiet()
    for (const { machine: receiving } of [one, two])
      await until('the database has everything', async () => {
        const { state, lag_records } = (await receiving.ask('status')).storage
        return state === 'up' && lag_records === 0
      })
    await server.ask(`DELETE FROM os_packets_data WHERE device_id = 'STRANGER'`, sql.driver.database)
    await assertStored([one.machine, two.machine], sql.driver.database, machine)
  })

  test('MQTT: two receivers share a subscription; one is killed and returns, nothing is lost or duplicated', async t => {
    const broker = await startMosquitto({ persistence: true })
    t.after(() => broker.stop())
    const link = { name: 'mqtt', medium: 'MQTT', host: '127.0.0.1', port: broker.port, qos: 1 }
    const sql = await server.fresh()
    const [one, two] = [
      await receiver('left', sql, [{ ...link, shared: 'pool' }]),
      await receiver('right', sql, [{ ...link, shared: 'pool' }]),
    ]
    const { machine, more, quiet } = await sender('SHARED', { ...link, name: 'up', frames: 'full' })
    await more(20)
    await one.machine.stop('SIGKILL')
    await more(20)
    await one.start()
    await more(20)
    await quiet()
    await assertStored([one.machine, two.machine], sql.driver.database, machine)
    for (const { machine: receiving } of [one, two]) {
      const { received, sessions } = await receiving.ask('status')
      assert.ok(received.facts > 0, 'each took some')
      // the other one could not use it
      assert.deepEqual([sessions.keys_named, received.refused], [0, 0], 'no key is named')
    }
  })
}

const quic = (): void => {
  test('QUIC behind nftables: a gateway that moves to another receiver loses and duplicates nothing, and gets one new key', async () => {
    const certs = makeCerts(join(dir, 'certs'))
    node = process.env.OS_NODE_QUIC_NODE ?? node
    const sql = await server.fresh()
    const [target, ...ports] = [await freeUdpPort(), await freeUdpPort(), await freeUdpPort()]
    const tls = { cert: certs.serverCert, key: certs.serverKey }
    const add = (name: string, port: number) =>
      receiver(name, sql, [{ name: 'quic', medium: 'QUIC', host: '127.0.0.1', port, tls }])
    const [one, two] = [await add('first', ports[0]!), await add('second', ports[1]!)]
    /** the rule of docs/deploy-upstream.md over these ports, and what it says for a map that changed */
    const balance = (live: readonly number[]): void => {
      const input = `table ip os_node {}
delete table ip os_node
table ip os_node { chain out { type nat hook output priority -100;
  udp dport ${target} dnat to 127.0.0.1 : jhash ip saddr mod ${live.length} map { ${live.map((port, n) => `${n} : ${port}`).join(', ')} }
}
}`
      const ran = spawnSync('nft', ['-f', '-'], { input, encoding: 'utf8' })
      assert.equal(ran.status, 0, ran.stderr)
      spawnSync('conntrack', ['-D', '-p', 'udp', '--orig-port-dst', String(target)])
    }
    balance(ports)
    const uplink = { medium: 'QUIC', host: '127.0.0.1', port: target, tls: { ca: certs.ca } }
    const { machine, more, quiet } = await sender('QUICK', uplink, one.port)
    await more(10)
    const took = async ({ machine: m }: typeof one): Promise<number> => (await m.ask('status')).received.facts
    // the one that the hash chose is the first that it leaves
    const [home, other, away] = (await took(one)) > 0 ? [one, two, ports[1]!] : [two, one, ports[0]!]
    assert.equal(await took(other), 0)
    balance([away])
    await more(10)
    assert.ok((await took(other)) > 0)
    assert.deepEqual(
      [await keysOf(home), await keysOf(other)],
      [
        [1, 0],
        [1, 0],
      ],
    )
    await home.machine.stop('SIGKILL')
    await more(10)
    await home.start()
    balance(ports)
    await more(10)
    await other.machine.stop('SIGKILL')
    await other.start()
    await quiet()
    await assertStored([one.machine, two.machine], sql.driver.database, machine)
  })
}

if (process.env[INSIDE]) quic()
else {
  udpAndMqtt()
  test('QUIC, in a network namespace', () => {
    const { status, stdout, stderr } = spawnSync(
      'unshare',
      ['-n', 'sh', '-c', 'ip link set lo up && exec "$@"', '-', process.execPath, '--test-reporter=spec', __filename],
      { env: { ...process.env, [INSIDE]: '1', NODE_TEST_CONTEXT: '' }, encoding: 'utf8', maxBuffer: 1 << 26 },
    )
    assert.equal(status, 0, `${stdout}\n${stderr}`)
  })
}
