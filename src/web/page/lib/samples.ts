// The stored values of one sensor over a range of time. A range that holds more than a few pages is sampled evenly: the
// newest value of each of many short spans, so that a day shows as a day and not as its last hour.
import { get, query } from './api'
import type { Line } from './history'
import type { SensorRecord } from './types'

const PAGE = 500
const MAX_PAGES = 4
const SPANS = 120
const AT_ONCE = 6

interface Answer {
  sensors: readonly SensorRecord[]
  total: number
}

export interface Samples extends Line {
  readonly unit: string
  /** values of the range that the gateway holds */
  readonly total: number
  /** true: evenly sampled, not all of them */
  readonly sampled: boolean
}

const ask = (device: string, sensor: string, more: Record<string, number>, signal: AbortSignal): Promise<Answer> =>
  get<Answer>(`/api/data/sensors${query({ device_id: device, sensor_id: sensor, ...more })}`, { signal })

/** `since` and `until` in whole UNIX seconds, both included. */
export async function samples(
  device: string,
  sensor: string,
  since: number,
  until: number,
  signal: AbortSignal,
): Promise<Samples> {
  const first = await ask(device, sensor, { since, until, limit: PAGE }, signal)
  const { total } = first
  const rows = [...first.sensors]
  const sampled = total > MAX_PAGES * PAGE
  if (sampled) {
    rows.length = 0
    const step = (until - since) / SPANS
    const spans = Array.from({ length: SPANS }, (_, k) => ({
      since: Math.ceil(since + k * step),
      until: Math.ceil(since + (k + 1) * step) - 1,
      limit: 1,
    }))
    for (let k = 0; k < SPANS; k += AT_ONCE) {
      const answers = await Promise.all(spans.slice(k, k + AT_ONCE).map(span => ask(device, sensor, span, signal)))
      rows.push(...answers.flatMap(answer => answer.sensors))
    }
  } else {
    while (rows.length < total) {
      const next = await ask(device, sensor, { since, until, limit: PAGE, offset: rows.length }, signal)
      if (next.sensors.length === 0) break
      rows.push(...next.sensors)
    }
  }
  return { ...lined(rows), unit: first.sensors[0]?.normalized_unit ?? '', total, sampled }
}

/** Rows in any order, with doubles where pages moved meanwhile → one rising line. */
function lined(rows: readonly SensorRecord[]): Line {
  const once = new Map(rows.map(row => [row.packet_uuid, row]))
  const sorted = [...once.values()].sort((a, b) => a.timestamp_raw - b.timestamp_raw)
  return { t: sorted.map(row => row.timestamp_raw), v: sorted.map(row => row.normalized_value) }
}
