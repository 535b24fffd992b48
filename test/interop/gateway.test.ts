// A gateway as its users see it: every command through a running gateway and without one (decision 0011), HTTP, peers without the
// delivery exchange, and invalid input.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { answerOf, factsOf } from '../lib/ask'
import { cli, freePort, freeUdpPort, keyOf, Machine, removeDir, tempDir, until } from '../lib/gateway'

/** the reference's own bytes (test/vectors/receive.json) */
const FULL = '3f010000000901018e23f14c00393b442e312e4159346a385577417c613e4b2e393a317c623e4b2e413a327cbc74b1'

const dir = tempDir()
let server: Machine
let gateway: Machine
let packets = 0
let serverWeb = 0
let web = 0
let token = ''

before(async () => {
  packets = await freeUdpPort()
  serverWeb = await freePort()
  web = await freePort()
  server = new Machine(join(dir, 'server'), 'serve', { device_id: 'SRV' })
  gateway = new Machine(join(dir, 'gateway'), 'run', {
    device_id: 'GW',
    Client_Core: { server_host: '127.0.0.1', server_port: packets },
    gateway: {
      sources: [
        { name: 'cpu', type: 'cpu', interval_ms: 200 },
        { name: 'chips', type: 'hwmon', sys_root: join(dir, 'no-such-sys'), match: '*' },
      ],
      uplinks: [{ name: 'up', medium: 'udp', host: '127.0.0.1', port: packets }],
    },
  })
  token = (gateway.json('token', '--new') as { token: string }).token
  await server.start(['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(serverWeb)], serverWeb)
  await gateway.start(['--port', String(web)], web)
  await until('packets are acknowledged and the time is known', async () => {
    const { uplinks, time } = await answerOf(gateway, 'status')
    return uplinks.up.acked > 2 && time.quality === 'server'
  })
})
after(async () => {
  await gateway.stop()
  await server.stop()
  removeDir(dir)
})

const get = async (path: string, headers: Record<string, string> = { 'X-Admin-Token': token }) => {
  const response = await fetch(`http://127.0.0.1:${web}${path}`, { headers })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

/** which process a command queries, with a time-out for a busy machine */
const upstream = () => ['--host', '127.0.0.1', '--port', String(packets), '--timeout', '60']
/** Whether UNIX seconds `at` are since `sinceMs`; either clock may be truncated to whole seconds */
const isNow = (at: number, sinceMs: number): boolean => at > sinceMs / 1000 - 2 && at < Date.now() / 1000 + 2

describe('a running gateway', () => {
  test('source test reads the open link of the gateway; one that is down is opened, or the reason is shown', () => {
    const { via, sources } = gateway.json('source', 'list')
    assert.equal(via, 'gateway')
    assert.deepEqual(
      sources.map(({ name, state }: { name: string; state: string }) => [name, state]),
      [
        ['cpu', 'up'],
        ['chips', 'down'],
      ],
    )
    const cpu = gateway.json('source', 'test', 'cpu')
    assert.equal(cpu.via, 'gateway')
    assert.ok(cpu.readings.every(({ sensor_id }: { sensor_id: string }) => sensor_id.length > 0))
    const down = gateway.run('source', 'test', 'chips')
    assert.equal(down.code, 5)
    assert.match(down.stderr, /chips is down: no hwmon sensors on this machine/)
    const unknown = gateway.run('source', 'test', 'cpus')
    assert.equal(unknown.code, 1)
    assert.match(unknown.stderr, /no source is named cpus; did you mean cpu\?/)
    assert.match(unknown.stderr, /sources: cpu, chips/)
  })

  test('status shows identity, time, links, log, uplinks, storage and what was dropped', async () => {
    const status = gateway.json('status')
    assert.equal(status.via, 'gateway')
    assert.equal(status.identity.device_id, 'GW')
    assert.ok(status.identity.assigned_id > 0 && status.identity.assigned_id < 4294967295)
    assert.equal(status.time.quality, 'server')
    assert.equal(typeof status.time.offset_ms, 'number')
    assert.equal(status.links.up.state, 'up')
    assert.equal(status.links.up.delivery, 'acked')
    assert.equal(status.links.cpu.state, 'up')
    assert.equal(status.links.chips.state, 'down', 'a sensor that is not there is a state')
    assert.match(status.links.chips.reason, /hwmon/)
    for (const key of ['first_seq', 'last_seq', 'committed_seq', 'bytes', 'lost', 'bytes_written_today'])
      assert.equal(typeof status.log[key], 'number', key)
    for (const key of ['cursor', 'backlog', 'acked', 'sent', 'resent', 'refused', 'abandoned', 'stray_answers'])
      assert.equal(typeof status.uplinks.up[key], 'number', key)
    assert.equal(typeof status.storage.lag_records, 'number')
    for (const part of ['uplinks', 'receivers']) assert.match(status.core[part], /^(py|rs)core$/)
    assert.deepEqual(Object.keys(status.dropped), ['rows', 'packets', 'records'])
    assert.deepEqual(Object.keys(status.uplinks.up.ignored), ['ready', 'channel_ack', 'bad_key'])
    assert.equal(status.uplinks.up.ignored.bad_key, 0)
    const counters =
      'packets facts duplicates malformed refused late_dropped too_large control moved not_allowed late ' +
      'unit_ambiguous templates_forgotten repeated beyond peers_forgotten stray_answers ' +
      'refused_plaintext openers bad_key sessions'
    for (const key of counters.split(' ')) assert.equal(typeof status.received[key], 'number', key)
  })

  test('transmit goes through the intake and the uplink; the server has it', async () => {
    const sent = gateway.json(
      'transmit',
      '--sensors',
      '[["T1","OK",21.5,"Cel"],["T2","OK",1,"bogus"]]',
      '--device-id',
      'HAND',
    )
    assert.equal(sent.sent, true)
    assert.equal(sent.via, 'gateway')
    assert.equal(sent.dispatch_path, 'driver')
    assert.equal(sent.delivery, 'acknowledged')
    assert.equal(sent.sensors_count, 1)
    assert.equal(sent.rejected[0].code, 'UNKNOWN_UNIT')
    assert.ok(sent.packet_len > 16)
    await until('the server stored it', async () => (await factsOf(server)).some(({ id }) => id === 'HAND'))
    const bad = gateway.run('transmit', '--unit', 'bogus', '--json')
    assert.equal(bad.code, 1)
    assert.equal(JSON.parse(bad.stdout).code, 'ALL_READINGS_REFUSED')
  })

  test('config-get, config-set, config-show, ensure-id, time-sync, decode, log verify and log export work through the gateway', () => {
    assert.deepEqual(gateway.json('config-get', '--key', 'engine_settings.precision').value, 4)
    const key = 'engine_settings.network_retry.max_retries'
    const change = gateway.json('config-set', '--key', key, '--value', '3', '--type', 'int')
    assert.deepEqual([change.key, change.old, change.new], [key, 2, 3])
    assert.equal(JSON.parse(readFileSync(gateway.config, 'utf8')).engine_settings.network_retry.max_retries, 3)
    assert.equal(gateway.run('config-get', '--key', 'no.such.key', '--json').code, 1)
    assert.equal(gateway.run('config-show').code, 0)
    const id = gateway.json('ensure-id', ...upstream())
    assert.equal(id.ok, true)
    assert.equal(id.assigned_id, gateway.json('status').identity.assigned_id)
    const asked = Date.now()
    const time = gateway.json('time-sync', ...upstream())
    assert.ok(isNow(time.server_time, asked))
    assert.equal(gateway.json('log', 'verify').ok, true)
    const rows = gateway
      .run('log', 'export', '--from', '1')
      .stdout.trim()
      .split('\n')
      .map(line => JSON.parse(line))
    assert.ok(rows.length > 2)
    for (const row of rows)
      for (const key of ['boot', 'seq', 't_raw', 'id', 's']) assert.notEqual(row[key], undefined, key)
    const decoded = gateway.run('decode', '--hex', 'ffff', '--json')
    assert.equal(decoded.code, 1)
    assert.equal(JSON.parse(decoded.stdout).error, 'Packet too short')
  })

  test('HTTP answers with the bodies of the specification', async () => {
    assert.equal((await get('/health', {})).status, 200)
    assert.equal((await get('/api/data/devices', {})).status, 401)
    await until('the view has packets', async () => ((await get('/api/data/packets')).body.total as number) > 2)
    const devices = (await get('/api/data/devices')).body
    assert.deepEqual(Object.keys(devices), ['ok', 'devices', 'total', 'limit', 'offset'])
    assert.equal(devices.limit, 100)
    const list = (await get('/api/data/packets?limit=100000&offset=-5')).body as {
      packets: Record<string, unknown>[]
      limit: number
      offset: number
    }
    assert.equal(list.limit, 500)
    assert.equal(list.offset, 0)
    const first = list.packets[0]!
    assert.deepEqual(Object.keys(first).sort(), [
      'created_at',
      'device_id',
      'device_status',
      'packet_uuid',
      'payload_json',
      'timestamp_raw',
    ])
    const one = (await get(`/api/data/packets/${first.packet_uuid as string}`)).body as {
      packet: unknown
      sensors: Record<string, unknown>[]
    }
    assert.deepEqual(one.packet, first)
    assert.deepEqual(Object.keys(one.sensors[0]!).sort(), [
      'normalized_unit',
      'normalized_value',
      'sensor_id',
      'sensor_index',
      'sensor_status',
    ])
    const none = await get('/api/data/packets/00000000-0000-8000-8000-000000000000')
    assert.equal(none.status, 404)
    assert.equal(none.body.error, 'packet not found')
    assert.equal((await get('/api/data/packets?limit=many')).status, 400)
    const config = (await get('/api/config?key=gateway.uplinks')).body
    assert.deepEqual(Object.keys(config), ['ok', 'key', 'value'])
    const transport = (await get('/api/transport')).body as { items: { name: string }[] }
    assert.deepEqual(
      transport.items.map(item => item.name),
      ['UDP', 'TCP', 'QUIC', 'MQTT', 'UART', 'RS485', 'CAN', 'LoRa', 'Bluetooth', 'IWIP', 'UIP'],
    )
    const dashboard = (await get('/api/dashboard')).body.dashboard as Record<string, unknown>
    for (const key of ['service', 'identity', 'transport', 'pipeline', 'plugins', 'users'])
      assert.ok(key in dashboard, key)
    const page = await fetch(`http://127.0.0.1:${web}/`)
    assert.match(await page.text(), /<title>/)
  })

  test('a second gateway on the same data directory is refused, and the error names the first', () => {
    const second = gateway.run('run', '--port', '0', '--json')
    assert.equal(second.code, 4)
    assert.equal(JSON.parse(second.stdout).code, 'LOCKED')
  })
})

describe('peers without the delivery exchange', () => {
  const ask = (packet: Buffer): Promise<Buffer> =>
    new Promise((resolve, reject) => {
      const socket = createSocket('udp4')
      const timer = setTimeout(() => reject(new Error('no answer')), 60_000)
      socket.on('message', message => {
        clearTimeout(timer)
        socket.close()
        resolve(message)
      })
      socket.send(packet, packets, '127.0.0.1')
    })

  test('a bare PING, TIME_REQUEST, ID_REQUEST and an unknown command are answered', async () => {
    assert.equal((await ask(Buffer.from('090005', 'hex'))).toString('hex'), '0a0005')
    const asked = Date.now()
    const time = await ask(Buffer.from('0b0006', 'hex'))
    assert.equal(time.subarray(0, 3).toString('hex'), '0c0006')
    assert.ok(isNow(Number(time.readBigUInt64BE(3)), asked))
    const assigned = await ask(Buffer.concat([Buffer.from('010007', 'hex'), Buffer.from('{"device_id": "ESP"}')]))
    assert.equal(assigned.subarray(0, 3).toString('hex'), '020007')
    const again = await ask(Buffer.concat([Buffer.from('010008', 'hex'), Buffer.from('{"device_id": "ESP"}')]))
    assert.equal(again.readUInt32BE(3), assigned.readUInt32BE(3))
    const refused = await ask(Buffer.from('770000', 'hex'))
    assert.equal(refused[0], 0x06)
    assert.equal(refused.subarray(3).toString(), 'Unknown CMD 0x77')
  })

  test('a plain FULL packet is stored; one without its template is answered NEED_FULL; invalid bytes are counted', async () => {
    const socket = createSocket('udp4')
    socket.send(Buffer.from(FULL, 'hex'), packets, '127.0.0.1')
    await until('the fact is stored', async () =>
      (await factsOf(server)).some(fact => keyOf(fact) === 'D 1710000000000'),
    )
    socket.close()
    const orphan = Buffer.from('7f01f5f08ed901018e23f14fe800b5cb', 'hex')
    const nack = await ask(orphan)
    assert.equal(nack[0], 0x06)
    assert.equal(nack.subarray(3).toString(), `NEED_FULL;${0xf5f08ed9};1;1710000001000;b5cb`)
    const before = (await answerOf(server, 'status')).dropped.packets
    const noise = createSocket('udp4')
    noise.send(Buffer.from('3f0100000009ffffffff', 'hex'), packets, '127.0.0.1')
    await until('it is counted', async () => (await answerOf(server, 'status')).dropped.packets > before)
    noise.close()
  })
})

describe('invalid input', () => {
  const machine = (name: string, text: string): string[] => {
    const home = join(dir, name)
    mkdirSync(home, { recursive: true })
    writeFileSync(join(home, 'Config.json'), text)
    return ['--config', join(home, 'Config.json'), '--data-dir', join(home, 'data'), '--json']
  }

  test('a broken Config.json is an error with file, line and reason, and the gateway never runs on defaults instead', () => {
    const ran = cli([
      'config-get',
      '--key',
      'device_id',
      ...machine('syntax', '{\n  "device_id": "A",\n  "gateway": {,}\n}\n'),
    ])
    assert.equal(ran.code, 3)
    const error = JSON.parse(ran.stdout)
    assert.equal(error.code, 'CONFIG_SYNTAX')
    assert.match(error.error, /:3/)
    const value = cli([
      'config-get',
      '--key',
      'device_id',
      ...machine('value', '{\n  "engine_settings": {\n    "precision": 11\n  }\n}\n'),
    ])
    assert.equal(value.code, 3)
    assert.match(JSON.parse(value.stdout).error, /:3: engine_settings\.precision/)
  })

  test('after a good start the last good copy is used, with a warning', async () => {
    const args = machine('lastgood', '{ "device_id": "GOOD", "gateway": { "uplinks": [] } }')
    assert.equal(cli(['config-set', '--key', 'engine_settings.full_every', '--value', '50', ...args]).code, 0)
    writeFileSync(join(dir, 'lastgood', 'Config.json'), '{ "device_id": ')
    const ran = cli(['config-get', '--key', 'device_id', ...args])
    assert.equal(ran.code, 0)
    assert.equal(JSON.parse(ran.stdout).value, 'GOOD')
  })

  test('a busy port is named, with what to do, and the data directory is unlocked again', async () => {
    const taken = createServer()
    await new Promise<void>(resolve => taken.listen(0, '127.0.0.1', resolve))
    const { port } = taken.address() as { port: number }
    const args = machine(
      'port',
      '{ "gateway": { "sources": [], "uplinks": [{ "name": "x", "medium": "UDP", "host": "127.0.0.1", "port": 9 }] } }',
    )
    const ran = cli(['run', '--port', String(port), ...args])
    assert.equal(ran.code, 5)
    const error = JSON.parse(ran.stdout)
    assert.equal(error.code, 'PORT_BUSY')
    assert.match(error.error, new RegExp(String(port)))
    assert.match(error.hint, /--port/)
    taken.close()
    assert.equal(cli(['config-set', '--key', 'device_id', '--value', 'X', ...args]).code, 0, 'the lock was released')
  })

  test('a read-only data directory is reported', () => {
    const home = join(dir, 'unwritable')
    mkdirSync(home, { recursive: true })
    writeFileSync(join(home, 'file'), '')
    writeFileSync(join(home, 'Config.json'), '{}')
    const ran = cli(['run', '--config', join(home, 'Config.json'), '--data-dir', join(home, 'file', 'data'), '--json'])
    assert.equal(ran.code, 4)
    assert.equal(JSON.parse(ran.stdout).code, 'DATA_DIR')
  })

  test('a wrong command line is exit 2 with the option or command, and the nearest one suggested', () => {
    const option = cli(['transmit', '--vallue', '1', '--json'])
    assert.equal(option.code, 2)
    assert.match(JSON.parse(option.stdout).error + JSON.parse(option.stdout).hint, /--value/)
    assert.equal(cli(['trasmit']).code, 2)
    assert.match(cli(['trasmit']).stderr, /transmit/)
    assert.equal(cli(['--help']).code, 0)
    assert.equal(cli(['transmit', '--value', 'abc']).code, 2)
  })
})

describe('without a gateway', () => {
  test('commands work on the files and report via local', async () => {
    const home = new Machine(join(dir, 'local'), 'run', {
      device_id: 'LOC',
      Client_Core: { server_host: '127.0.0.1', server_port: packets },
    })
    assert.equal(home.json('status').via, 'local')
    const refused = home.run('transmit', '--json')
    assert.equal(refused.code, 1)
    assert.equal(JSON.parse(refused.stdout).code, 'NO_ASSIGNED_ID')
    assert.equal(home.json('ensure-id', ...upstream()).ok, true)
    const sent = home.json('transmit', '--sensor-id', 'T1', '--value', '21.5', '--unit', 'Cel')
    assert.equal(sent.sent, true)
    assert.equal(sent.via, 'local')
    assert.equal(sent.strategy, 'FULL_PACKET')
    await until('the server stored it', async () => (await factsOf(server)).some(({ id }) => id === 'LOC'))
    assert.ok(home.json('time-sync', ...upstream()).server_time > 1e9)
    assert.equal(home.run('decode', '--hex', FULL).code, 0)
  })

  test('the log of a stopped gateway is read from its files', async () => {
    await gateway.stop()
    const keys = gateway.logKeys()
    assert.ok(keys.length > 2)
    const verify = gateway.json('log', 'verify')
    assert.equal(verify.ok, true)
    assert.equal(verify.via, 'local')
    const status = gateway.json('status')
    assert.equal(status.via, 'local')
    assert.ok(status.log.last_seq >= keys.length)
  })
})

describe('source test without a gateway', () => {
  test('the source is opened for the test', () => {
    const machine = new Machine(join(dir, 'alone'), 'run', {
      gateway: {
        sources: [
          { name: 'up', type: 'uptime' },
          { name: 'bad', type: 'uptime', interval_ms: 50 },
        ],
      },
    })
    const tested = machine.json('source', 'test', 'up')
    assert.equal(tested.via, 'local')
    assert.ok(tested.readings[0].value > 0)
    assert.match(machine.run('source', 'test', 'up').stdout, /^up \(uptime\), \d+ ms\nsensor +raw +status/)
    assert.match(machine.run('source', 'list').stdout, /\nup +uptime +not running/)
    const bad = machine.run('source', 'test', 'bad')
    assert.equal(bad.code, 3)
    assert.match(bad.stderr, /options of bad: interval_ms/)
    assert.match(machine.run('source', 'test', 'nobody').stderr, /sources: up, bad/)
  })
})
