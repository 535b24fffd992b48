// The data queries (specification "Data query endpoints"). A database error without a code becomes unavailable (X27).
import { asOsError, OsError } from '../../lib/errors'
import type { HistoryQuery, PacketQuery, SensorQuery } from '../../storage'
import type { Queries } from '../context'
import { displayedData, units, wantsDisplay } from '../display-units'
import { limit, needed, offset, seconds, text } from '../query'
import { type Call, type Route, route } from '../route'
import * as s from '../schemas'

/** Runs a query and returns its answer in the requested units. */
async function ask<Q>(
  { context, query }: Pick<Call, 'context' | 'query'>,
  run: (db: Queries, query: Q) => Promise<object | null>,
): Promise<object | null> {
  const { units: _, ...filters } = query
  try {
    const db = typeof context.db === 'function' ? context.db() : context.db
    if (!db) throw new OsError('DB_NOT_CONFIGURED', 'database not configured')
    const answer = await run(db, filters as Q)
    return answer && wantsDisplay(query) ? displayedData(answer) : answer
  } catch (thrown) {
    const error = asOsError(thrown, 'DB_UNAVAILABLE')
    throw error.code.startsWith('DB_') ? error : new OsError('DB_UNAVAILABLE', error.message, { cause: error })
  }
}

/** The handler of a list. */
const list =
  <Q>(run: (db: Queries, query: Q) => Promise<object>) =>
  async (call: Call): Promise<object> => ({ ok: true, ...(await ask(call, run)) })

async function packet(call: Call): Promise<object> {
  const uuid = call.params.uuid ?? ''
  if (uuid.trim() === '') throw new OsError('BAD_REQUEST', 'packet_uuid is required')
  const found = await ask(call, db => db.queryPacket(uuid))
  if (!found) throw new OsError('NOT_FOUND', 'packet not found', { details: { packet_uuid: uuid } })
  return { ok: true, ...found }
}

export const DATA: readonly Route[] = [
  route('GET /api/data/devices', {
    role: 'viewer',
    summary: 'devices by their last packet',
    query: { limit: limit(100), offset },
    answer: s.devices,
    run: list<{ limit: number; offset: number }>((db, page) => db.queryDevices(page.limit, page.offset)),
  }),
  route('GET /api/data/packets', {
    role: 'viewer',
    summary: 'packets, newest first',
    query: { device_id: text, status: text, since: seconds, until: seconds, limit: limit(50), offset, units },
    answer: s.packets,
    run: list<PacketQuery>((db, query) => db.queryPackets(query)),
  }),
  route('GET /api/data/packets/:uuid', {
    role: 'viewer',
    summary: 'one packet with its sensors',
    query: { units },
    answer: s.onePacket,
    run: packet,
  }),
  route('GET /api/data/sensors', {
    role: 'viewer',
    summary: 'sensor values, newest first',
    query: { device_id: text, sensor_id: text, since: seconds, until: seconds, limit: limit(50), offset, units },
    answer: s.sensors,
    run: list<SensorQuery>((db, query) => db.querySensors(query)),
  }),
  route('GET /api/data/history', {
    role: 'viewer',
    summary: 'all values of one sensor as count, min, mean and max in buckets of equal width',
    query: { device_id: needed, sensor_id: needed, since: seconds, until: seconds, buckets: limit(200, 1000), units },
    answer: s.history,
    run: list<HistoryQuery>((db, query) => db.queryHistory(query)),
  }),
]
