// Facts that are difficult for a database, and the queries whose answers are compared across the dialects.
import { type FlashLog, packetUuid, uuidText } from '../../../src/log'
import type { Fact } from '../../../src/pipeline/fact'
import type { Database } from '../../../src/storage'
import { prng } from '../../lib/random'

export const T0 = Date.parse('2026-03-01T00:00:00Z')
export const ONE = { medium: 'UDP' }

export const factOf = (k: number, more: Partial<Fact> = {}): Fact => ({
  ...{ id: `dev-${k % 3}`, state: 'ONLINE', tRaw: T0 + k * 1000, aid: 7 },
  sensors: [{ id: 'temp', status: 'OK', unit: 'K', value: k / 3 }],
  ...more,
})

/** Facts of every kind: late, duplicated, with unset clocks, ahead of time, with texts that are difficult for a database. */
export function fill(log: FlashLog, seed: number, count: number): string[] {
  const random = prng(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  const ids = [
    'dev-1',
    'dev-2',
    'Ünïcode ☃ 𝄞',
    'q\'uo"te\\',
    'a\0b',
    'sep\x1f\u241b0',
    'trailing ',
    'trailing',
    'DEV-1',
    'n'.repeat(600),
  ]
  const values = [null, 0, 0.1, 1 / 3, -5e-324, 1e150, 123456789.12345679, 2 ** 53, -273.15]
  const uuids: string[] = []
  let last: Fact | undefined
  for (let k = 0; k < count; k++) {
    const quality = random() < 0.1 ? 'unsynced' : 'synced'
    const sensors = Array.from({ length: Math.floor(random() * 5) }, () => ({
      id: pick(['temp', 'hum', '', "s'1", 'te\0mp']),
      status: pick(['OK', 'ALARM', '']),
      unit: pick(['K', '%', '', '{tuple}', 'µ']),
      value: random() < 0.5 ? random() * 1000 : pick(values),
    }))
    const fresh: Fact = {
      ...{ id: pick(ids), state: pick(['ONLINE', 'OFFLINE', 'ST A']), aid: 7, sensors },
      tRaw: T0 + Math.floor(random() * 3 * 86_400_000) + (random() < 0.05 ? 86_400_000 * 9000 : 0),
      ...(random() < 0.2 && { extras: { note: pick(['x', 'a\0b', '"']), geo: '1;2' } }),
    }
    const fact = last && random() < 0.1 ? last : fresh
    last = fact
    uuids.push(uuidText(packetUuid(fact)))
    log.appendFact(fact, { ...ONE, ...(random() < 0.05 && { future: true }) } as never, quality)
    if (random() < 0.01)
      log.appendClock(
        { trueWallMs: T0, offsetMs: Math.floor(random() * 1e8), source: 'ntp' },
        pick(['synced', 'unsynced']),
      )
  }
  return uuids
}

/** Answers to many queries; equal data gives equal answers. */
export async function answers(db: Database, uuids: readonly string[], seed: number): Promise<unknown[]> {
  const random = prng(seed)
  const maybe = <T>(list: readonly T[]): T | null => (random() < 0.5 ? null : list[Math.floor(random() * list.length)]!)
  const second = (): number => T0 / 1000 + Math.floor(random() * 4 * 86_400) - 43_200
  const out: unknown[] = []
  const range = () => ({
    device_id: maybe(['dev-1', 'a\0b', 'Ünïcode ☃ 𝄞', 'trailing ', 'q\'uo"te\\', 'n'.repeat(600), 'none']),
    since: random() < 0.5 ? null : second(),
    until: random() < 0.5 ? null : second(),
    limit: 1 + Math.floor(random() * 30),
    offset: Math.floor(random() * 40),
  })
  for (let k = 0; k < 12; k++) {
    out.push(await db.queryDevices(1 + Math.floor(random() * 12), Math.floor(random() * 3)))
    out.push(await db.queryPackets({ ...range(), status: maybe(['ONLINE', 'ST A', 'none']) }))
    out.push(await db.querySensors({ ...range(), sensor_id: maybe(['temp', '', 'te\0mp', "s'1"]) }))
    out.push(await db.queryPacket(uuids[Math.floor(random() * uuids.length)]!))
    const of = {
      device_id: 'dev-1',
      sensor_id: maybe(['temp', 'te\0mp']) ?? 'hum',
      buckets: 1 + Math.floor(random() * 40),
    }
    const { since, until } = range()
    out.push(rounded(await db.queryHistory({ ...of, since, until })))
  }
  out.push(await db.queryPacket('00000000-0000-8000-8000-000000000000'), await db.queryPacket('x'))
  return out
}

/** The sum of a mean is added in another order by each server. */
const rounded = ({ buckets, ...rest }: Awaited<ReturnType<Database['queryHistory']>>) => ({
  ...rest,
  buckets: buckets.map(bucket => ({
    ...bucket,
    mean: bucket.mean === null ? null : Number(bucket.mean.toPrecision(12)),
  })),
})
