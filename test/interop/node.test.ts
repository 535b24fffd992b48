// Node as a library (specification, "Node operations"), imported from the built file, against a real `os-node serve`.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type * as Library from '../../src/index'
import { databaseKeys, freePort, freeUdpPort, Machine, removeDir, script, tempDir, until } from '../lib/gateway'

const { Node, Standardizer, Engine, Fusion, FlashLog, OsError } = require(script) as typeof Library
type LibraryNode = InstanceType<typeof Node>

const dir = tempDir()
let server: Machine
let packets = 0
let web = 0
let token = ''
const nodes: LibraryNode[] = []

before(async () => {
  packets = await freeUdpPort()
  web = await freePort()
  server = new Machine(join(dir, 'server'), 'serve', { device_id: 'SRV' })
  token = (server.json('token', '--new') as { token: string }).token
  await server.start(['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(web)], web)
})
after(async () => {
  for (const node of nodes) await node.close()
  await server.stop()
  removeDir(dir)
})

function newNode(name: string, config: Record<string, unknown> = {}): LibraryNode {
  const path = join(dir, name, 'Config.json')
  mkdirSync(join(dir, name), { recursive: true })
  const core = { Client_Core: { server_host: '127.0.0.1', server_port: packets } }
  writeFileSync(path, JSON.stringify({ device_id: name, ...core, ...config }))
  const node = new Node(path)
  nodes.push(node)
  return node
}

describe('without an id', () => {
  test('without an id transmit is refused with the text of the specification', () => {
    assert.throws(
      () => newNode('NOID').transmit([['T1', 'OK', 1, 'Cel']]),
      (error: unknown) =>
        error instanceof OsError &&
        error.code === 'NO_ASSIGNED_ID' &&
        error.message === "[transmit] Device 'NOID' has no assigned physical ID. Call ensure_id() first.",
    )
  })

  test('ensureId gets an id over UDP and stores it in Config.json', async () => {
    const node = newNode('ID1')
    assert.equal(await node.ensureId('127.0.0.1', packets, null, 60), true)
    assert.ok(node.assignedId > 0 && node.assignedId < 4294967295)
    const kept = JSON.parse(readFileSync(node.configPath, 'utf8')) as { assigned_id: number }
    assert.equal(kept.assigned_id, node.assignedId)
    assert.equal(await node.ensureId('127.0.0.1', 1), true, 'already present: no request')
    const again = newNode('ID1b', { device_id: 'ID1' })
    assert.equal(await again.ensureId('127.0.0.1', packets, null, 60), true)
    assert.equal(again.assignedId, node.assignedId, 'the same device gets its id back')
    const other = newNode('ID2')
    await other.ensureId('127.0.0.1', packets, null, 60)
    assert.notEqual(other.assignedId, node.assignedId)
  })

  test('ensureId returns false, ensureTime and dispatchWithReply null, when no server answers', async () => {
    const silent = createSocket('udp4')
    await new Promise<void>(resolve => silent.bind(0, '127.0.0.1', resolve))
    const { port } = silent.address()
    const node = newNode('SILENT')
    assert.equal(await node.ensureId('127.0.0.1', port, null, 0.3), false)
    assert.equal(await node.ensureTime('127.0.0.1', port, 0.3), null)
    assert.equal(await node.dispatchWithReply(Buffer.from([9, 0, 1]), '127.0.0.1', port, 0.3), null)
    assert.ok(node.lastError)
    silent.close()
  })
})

describe('with an id', () => {
  test('three FULL, then DIFF, then HEART as a DIFF_PACKET are sent; every packet decodes to what was sent', () => {
    const node = newNode('N1', { assigned_id: 77 })
    const names: string[] = []
    for (const value of [20, 21, 22, 23, 23]) {
      const [packet, aid, strategy] = node.transmit([['T1', 'OK', value, 'Cel']], null, 'ONLINE', {
        t: 1710000000 + value,
      })
      names.push(`${strategy} ${packet[0]!.toString(16)}`)
      assert.equal(aid, 77)
      const fact = node.receive(packet)
      assert.equal(fact.id, 'N1')
      assert.equal(fact.t, 1710000000 + value)
      assert.equal(fact.s1_u, 'K')
      assert.ok(Math.abs((fact.s1_v as number) - (value + 273.15)) < 1e-9)
      const meta: object = fact.__packet_meta__
      for (const key of [
        'cmd',
        'base_cmd',
        'secure',
        'source_aid',
        'crc16_ok',
        'crc8_ok',
        'timestamp_raw',
        'tid',
        'template_learned',
      ])
        assert.notEqual(Reflect.get(meta, key), undefined, key)
    }
    assert.deepEqual(names, ['FULL_PACKET 3f', 'FULL_PACKET 3f', 'FULL_PACKET 3f', 'DIFF_PACKET aa', 'DIFF_PACKET 7f'])
  })

  test('invalid rows are left out and named; if all are invalid it throws; an empty list is a FULL without sensors', () => {
    const node = newNode('N2', { assigned_id: 78 })
    const [packet] = node.transmit([
      ['T1', 'OK', 1, 'Cel'],
      ['T2', 'OK', Number.NaN, 'Cel'],
      ['T3', 'OK', 1, 'bogus'],
      ['a.b', 'OK', 1, 'Cel'],
      ['T5', 'OK', 1] as never,
    ])
    assert.deepEqual(
      node.lastRejected.map(({ index, code }) => `${index} ${code}`),
      ['1 BAD_READING', '2 UNKNOWN_UNIT', '3 BAD_ID', '4 BAD_READING'],
    )
    assert.equal(node.receive(packet).s2_id, undefined)
    assert.throws(() => node.transmit([['T1', 'OK', 1, 'bogus']]), { code: 'ALL_READINGS_REFUSED' })
    const [empty, , strategy] = node.transmit([])
    assert.equal(strategy, 'FULL_PACKET')
    assert.equal(empty[0], 0x3f)
    assert.throws(() => node.transmit([['T1', 'OK', 1, 'Cel']], 'a|b'), { code: 'BAD_ID' })
    assert.throws(() => node.transmit([['T1', 'OK', 1, 'Cel']], null, 'ONLINE', { t: -5 }), { code: 'BAD_TIME' })
  })

  test('transmitFast and transmitBatch return packets that are never overwritten', () => {
    const node = newNode('N3', { assigned_id: 79 })
    const results = node.transmitBatch(
      Array.from({ length: 2000 }, (_, k) => ({
        sensors: [['T1', 'OK', k, 'Cel']] as [string, string, number, string][],
      })),
      { device_id: 'BATCH' },
    )
    assert.equal(results.length, 2000)
    const reader = new Fusion()
    results.forEach(([packet], k) => {
      assert.ok(Math.abs((reader.decompress(packet).s1_v as number) - (k + 273.15)) < 1e-6)
    })
    assert.equal(node.getLastBatchMetrics(), null)
    assert.deepEqual(node.transmitBatch(null), [])
    assert.equal(node.transmitFast([['T1', 'OK', 1, 'Cel']])[1], 79)
  })

  test('dispatch sends over UDP, text as UTF-8; an unknown medium is false with its reason', async () => {
    const node = newNode('N4', { assigned_id: 80 })
    const before = (await databaseKeys(web, token)).length
    const [packet] = node.transmit([['T1', 'OK', 1, 'Cel']])
    assert.equal(await node.dispatch(packet), true)
    await until('the server stored it', async () => (await databaseKeys(web, token)).length > before)
    assert.equal(await node.dispatch('hello', 'udp'), true)
    assert.equal(await node.dispatch(packet, 'Pigeon'), false)
    assert.equal(node.lastError?.message, 'No available driver: Pigeon')
    assert.deepEqual(Object.keys(node.activeTransporters), ['UDP'])
    assert.equal(node.transporterManager.getDriver('pigeon'), null)
    assert.equal(node.transporter_manager, node.transporterManager)
    assert.deepEqual(
      [node.assigned_id, node.device_id, node.config_path, node.db_manager, node.dbManager?.connected],
      [80, 'N4', node.configPath, node.dbManager, false],
    )
    assert.deepEqual(node.serviceManager.snapshot(), {
      mode: 'runtime',
      mount_index: [],
      runtime_index: [],
      config_index: {},
    })
  })

  test('dispatchWithReply, receiveViaProtocol and ensureTime exchange control packets', async () => {
    const node = newNode('N5', { assigned_id: 81 })
    const pong = await node.dispatchWithReply(Buffer.from([0x09, 0x12, 0x34]), null, null, 60)
    assert.deepEqual([...pong!], [0x0a, 0x12, 0x34])
    const asked = Date.now() / 1000
    const seconds = await node.ensureTime(null, null, 60)
    assert.ok(seconds! > asked - 2 && seconds! < Date.now() / 1000 + 2)
    const envelope = node.receiveViaProtocol(Buffer.from([0x0b, 0, 7]), '127.0.0.1:1')
    assert.equal(envelope.type, 'CTRL')
    assert.equal(envelope.response?.[0], 0x0c)
    const unknown = node.receiveViaProtocol(Buffer.from([0x77, 0, 7]))
    assert.equal(unknown.type, 'UNKNOWN')
    assert.equal(Buffer.from(unknown.response!.subarray(3)).toString(), 'Unknown CMD 0x77')
    assert.equal(node.receiveViaProtocol(Buffer.alloc(0)).type, 'ERROR')
  })

  test('relay returns a FULL of the source, or the reason why it cannot', () => {
    const source = newNode('N6', { assigned_id: 82 })
    const relay = newNode('RELAY', { assigned_id: 83 })
    const packets = [1, 2, 3, 4].map(
      v => source.transmit([['T1', 'OK', v, 'Cel']], null, 'ONLINE', { t: 1710000000 + v })[0],
    )
    assert.throws(() => relay.relay(packets[3]!), { code: 'RELAY_UNDECODABLE' })
    for (const packet of packets) relay.receive(packet)
    const full = relay.relay(packets[3]!)
    const fact = newNode('END').receive(full)
    assert.equal((fact.__packet_meta__ as { source_aid: number }).source_aid, 82)
    assert.equal(fact.id, 'N6')
    assert.ok(Math.abs((fact.s1_v as number) - 277.15) < 1e-9)
  })
})

describe('parts of the library alone', () => {
  test('Standardizer, Engine and Fusion work without a node', () => {
    const fact = new Standardizer(join(dir, 'none.json')).standardize('D1', 'ONLINE', [['P1', 'OK', 101.3, 'kPa']], {
      t: 1710000000,
    })
    assert.equal(fact.s1_u, 'Pa')
    assert.equal(fact.s1_v, 101300)
    const engine = new Engine()
    const text = engine.compress(fact)
    assert.equal(engine.decompress(text).s1_v, 101300)
    const fusion = new Fusion(null, { localId: 9 })
    const decoded = new Fusion().decompress(fusion.runEngine(`9;${text}`, 'FULL'))
    assert.equal(decoded.id, 'D1')
    assert.equal(decoded.s1_u, 'Pa')
  })
})

describe('a node with a log', () => {
  test('transmitted facts are logged in canonical units', async () => {
    const log = await FlashLog.open({ dir: join(dir, 'nodelog') })
    const path = join(dir, 'LOGGED.json')
    writeFileSync(path, JSON.stringify({ device_id: 'LOGGED', assigned_id: 90 }))
    const node = new Node(path, { log })
    nodes.push(node)
    node.transmit([['T1', 'OK', 21.5, 'Cel']], null, 'ONLINE', { t: 1710000000 })
    await log.flush()
    const record = log.reader(1, { kinds: ['fact'] }).next()
    assert.equal(record?.fact?.id, 'LOGGED')
    assert.equal(record?.fact?.aid, 90)
    assert.equal(record?.fact?.tRaw, 1710000000000)
    assert.deepEqual(record?.fact?.sensors, [{ id: 'T1', status: 'OK', unit: 'K', value: 294.65 }])
    await log.close()
  })

  test('a separate id allocator answers ID_REQUEST and survives a restart', async () => {
    const path = join(dir, 'alloc', 'Config.json')
    mkdirSync(join(dir, 'alloc'), { recursive: true })
    writeFileSync(path, '{}')
    const ask = Buffer.concat([Buffer.from('010001', 'hex'), Buffer.from('{"device_id": "E1"}')])
    const first = new Node(path)
    const reply = await first.protocol.dispatch(ask, 'a:1')
    assert.equal(reply.response?.[0], 0x02)
    await first.close()
    const second = new Node(path)
    const again = await second.protocol.dispatch(ask, 'b:2')
    assert.equal(
      again.result.assigned_id ?? Buffer.from(again.response!).readUInt32BE(3),
      Buffer.from(reply.response!).readUInt32BE(3),
    )
    await second.close()
  })
})
