// The data queries (specification "Data query endpoints"). What the database throws without a code of its own is told as
// unavailable (X27).
import { asOsError, OsError } from '../../lib/errors'
import type { HistoryQuery, PacketQuery, SensorQuery } from '../../storage'
import type { Queries } from '../context'
import { limit, needed, offset, seconds, text } from '../query'
import { type Call, type Route, route } from '../route'
import * as s from '../schemas'

async function ask<T>({ context }: Pick<Call, 'context'>, run: (db: Queries) => Promise<T>): Promise<T> {
  try {
    const db = typeof context.db === 'function' ? context.db() : context.db
    if (!db) throw new OsError('DB_NOT_CONFIGURED', 'database not configured')
    return await run(db)
  } catch (thrown) {
    const error = asOsError(thrown, 'DB_UNAVAILABLE')
    throw error.code.startsWith('DB_') ? error : new OsError('DB_UNAVAILABLE', error.message, { cause: error })
  }
}

async function packet(call: Call): Promise<object> {
  const uuid = call.params.uuid ?? ''
  if (uuid.trim() === '') throw new OsError('BAD_REQUEST', 'packet_uuid is required')
  const found = await ask(call, db => db.queryPacket(uuid))
  if (!found) throw new OsError('NOT_FOUND', 'packet not found', { details: { packet_uuid: uuid } })
  return { ok: true, ...found }
}

export const DATA: readonly Route[] = [
  route({
    method: 'GET',
    path: '/api/data/devices',
    role: 'viewer',
    summary: 'devices by their last packet',
    query: { limit: limit(100), offset },
    answer: s.devices,
    run: async call => ({
      ok: true,
      ...(await ask(call, db => db.queryDevices(Number(call.query.limit), Number(call.query.offset)))),
    }),
  }),
  route({
    method: 'GET',
    path: '/api/data/packets',
    role: 'viewer',
    summary: 'packets, newest first',
    query: { device_id: text, status: text, since: seconds, until: seconds, limit: limit(50), offset },
    answer: s.packets,
    run: async call => ({
      ok: true,
      ...(await ask(call, db => db.queryPackets({ ...call.query } as unknown as PacketQuery))),
    }),
  }),
  route({
    method: 'GET',
    path: '/api/data/packets/:uuid',
    role: 'viewer',
    summary: 'one packet with its sensors',
    answer: s.onePacket,
    run: packet,
  }),
  route({
    method: 'GET',
    path: '/api/data/sensors',
    role: 'viewer',
    summary: 'sensor values, newest first',
    query: { device_id: text, sensor_id: text, since: seconds, until: seconds, limit: limit(50), offset },
    answer: s.sensors,
    run: async call => ({
      ok: true,
      ...(await ask(call, db => db.querySensors({ ...call.query } as unknown as SensorQuery))),
    }),
  }),
  route({
    method: 'GET',
    path: '/api/data/history',
    role: 'viewer',
    summary: 'all values of one sensor as count, min, mean and max in buckets of equal width',
    query: { device_id: needed, sensor_id: needed, since: seconds, until: seconds, buckets: limit(200, 1000) },
    answer: s.history,
    run: async call => ({
      ok: true,
      ...(await ask(call, db => db.queryHistory({ ...call.query } as unknown as HistoryQuery))),
    }),
  }),
]
