// Specification, "Library equivalents on the database manager".
import assert from 'node:assert/strict'
import { DatabaseManager } from '../../../src/index'
import type { Row, Table } from '../rows'
import * as is from '../shape'
import { parameters, sameParameters } from '../signature'
import { closes, library, newFolder, newNode, patient, ROWS, T } from '../world'

const page = (list: string, row: is.Shape, limit: number) =>
  is.record({
    ok: is.exactly(true),
    [list]: is.listOf(row),
    total: is.integer,
    limit: is.exactly(limit),
    offset: is.exactly(0),
  })
const packet = is.record({
  packet_uuid: is.string,
  device_id: is.string,
  device_status: is.string,
  timestamp_raw: is.exactly(T),
  payload_json: is.dict,
  created_at: is.integer,
})
const sensor = is.record({
  sensor_index: is.integer,
  sensor_id: is.string,
  sensor_status: is.string,
  normalized_value: is.orNone(is.number),
  normalized_unit: is.orNone(is.string),
})

type Sent = readonly [device: string, status: string, t: number]

/** Over a log with these packets. */
async function database(packets: readonly Sent[] = [['DEV', 'ONLINE', T]]) {
  const log = await library.FlashLog.open({ dir: newFolder(), commitIntervalMs: 5, ackCommitMs: 2 })
  const node = newNode({}, { log })
  closes(log)
  for (const [device, status, t] of packets) node.transmit(ROWS, device, status, { t })
  await log.flush()
  const db = new library.DatabaseManager(node.config, { log })
  closes(db)
  await db.connect()
  await patient(() => db.queryDevices())
  return db
}

const QUERIES: readonly Row[] = [
  {
    name: 'query_devices',
    observe: async () => {
      sameParameters(parameters(DatabaseManager.prototype.queryDevices), ['limit = 100', 'offset = 0'], 'queryDevices')
      const row = is.record({ device_id: is.exactly('DEV'), last_seen: is.exactly(T), packet_count: is.exactly(1) })
      page('devices', row, 100)(await (await database()).queryDevices())
    },
  },
  {
    name: 'query_packets, query_packet',
    observe: async () => {
      const filters = ['deviceId = null', 'status = null', 'since = null', 'until = null', 'limit = 50', 'offset = 0']
      sameParameters(parameters(DatabaseManager.prototype.queryPackets), filters, 'queryPackets')
      const db = await database()
      const found = await db.queryPackets()
      page('packets', packet, 50)(found)
      assert.equal((await db.queryPackets('other')).total, 0)
      assert.equal((await db.queryPackets(null, 'OFFLINE')).total, 0)
      assert.equal((await db.queryPackets(null, null, T, T)).total, 1)
      assert.equal((await db.queryPackets(null, null, T + 1)).total, 0)
      sameParameters(parameters(DatabaseManager.prototype.queryPacket), ['uuid'], 'queryPacket')
      is.record({ ok: is.exactly(true), packet, sensors: is.listOf(sensor) })(
        await db.queryPacket(found.packets[0]!.packet_uuid),
      )
      is.none(await db.queryPacket('00000000-0000-0000-0000-000000000000'))
    },
  },
  {
    name: 'query_sensors',
    observe: async () => {
      const filters = ['sensorId = null', 'deviceId = null', 'since = null', 'until = null', 'limit = 50', 'offset = 0']
      sameParameters(parameters(DatabaseManager.prototype.querySensors), filters, 'querySensors')
      const db = await database()
      const row: is.Shape = (value, at) => {
        sensor(value, at)
        is.record({ device_id: is.exactly('DEV'), timestamp_raw: is.exactly(T), packet_uuid: is.string })(value, at)
      }
      page('sensors', row, 50)(await db.querySensors())
      assert.equal((await db.querySensors('T1')).total, 1)
    },
  },
  {
    name: 'filters, inclusive bounds, order, limit and offset',
    observe: async () => {
      const db = await database([
        ['DEV', 'ONLINE', T],
        ['B', 'IDLE', T + 10],
        ['DEV', 'ONLINE', T + 20],
      ])
      const at = (rows: readonly { timestamp_raw: number }[]) => rows.map(({ timestamp_raw }) => timestamp_raw - T)
      const packets = async (...given: Parameters<typeof db.queryPackets>) =>
        at((await db.queryPackets(...given)).packets)
      assert.deepEqual(await packets(), [20, 10, 0])
      assert.deepEqual(await packets('DEV'), [20, 0])
      assert.deepEqual(await packets(null, 'IDLE'), [10])
      assert.deepEqual(await packets(null, null, T + 10), [20, 10])
      assert.deepEqual(await packets(null, null, null, T + 10), [10, 0])
      assert.deepEqual(await packets(null, null, null, null, 1, 1), [10])
      const sensors = async (...given: Parameters<typeof db.querySensors>) =>
        (await db.querySensors(...given)).sensors.map(
          ({ timestamp_raw, sensor_id }) => `${sensor_id} ${timestamp_raw - T}`,
        )
      assert.deepEqual(await sensors(), ['T1 20', 'P1 20', 'T1 10', 'P1 10', 'T1 0', 'P1 0'])
      assert.deepEqual(await sensors('P1'), ['P1 20', 'P1 10', 'P1 0'])
      assert.deepEqual(await sensors(null, 'B'), ['T1 10', 'P1 10'])
      assert.deepEqual(await sensors('T1', null, T + 10), ['T1 20', 'T1 10'])
      assert.deepEqual(await sensors('T1', null, null, T + 10), ['T1 10', 'T1 0'])
      assert.deepEqual(await sensors(null, null, null, null, 2, 1), ['P1 20', 'T1 10'])
      const devices = async (...given: Parameters<typeof db.queryDevices>) => {
        const { devices, total } = await db.queryDevices(...given)
        return [total, devices.map(({ device_id, packet_count }) => `${device_id} ${packet_count}`).sort()]
      }
      assert.deepEqual(await devices(), [2, ['B 1', 'DEV 2']])
      const [[, one], [, other]] = [await devices(1), await devices(1, 1)]
      assert.deepEqual([one, other].flat().sort(), ['B 1', 'DEV 2'])
    },
  },
  {
    name: 'limit is 1 to 500',
    observe: async () => {
      const db = await database()
      assert.deepEqual([(await db.queryDevices(0)).limit, (await db.queryDevices(9999)).limit], [1, 500])
    },
  },
]

export const queryTables: readonly Table[] = [{ title: 'Data queries', rows: QUERIES }]
