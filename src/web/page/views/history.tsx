// The history of one sensor: a plot over a chosen range, its minimum, mean and maximum (over all values: the gateway
// computes them), and the newest readings as a table. If nothing is stored, the values since the page was opened.
import { useEffect, useState } from 'preact/hooks'
import { type Scale, scaled, scaleOf } from '../../../units/display'
import { counted } from '../format'
import { type ApiError, asApiError, get, query } from '../lib/api'
import { history, live, now } from '../lib/live'
import { useStore } from '../lib/observable'
import { useResource } from '../lib/resource'
import { href } from '../lib/route'
import { lineOf, type Statistics, type StoredHistory, statisticsOf } from '../lib/stored'
import type { SensorRecord } from '../lib/types'
import { Card, Choice, Empty, Table, Value } from '../ui/parts'
import { Plot } from '../ui/plot'

const RANGES = { '10min': 600, '1h': 3600, '6h': 21_600, '24h': 86_400, '7d': 604_800 } as const
type Range = keyof typeof RANGES
const NAMES: readonly (readonly [Range, string])[] = [
  ['10min', '10 min'],
  ['1h', '1 h'],
  ['6h', '6 h'],
  ['24h', '24 h'],
  ['7d', '7 d'],
]
const ROWS = 20
/** enough for any screen: a bucket takes a few pixels */
const BUCKETS = 300

const NOTHING: StoredHistory = { buckets: [], since: 0, until: 0, units: [] }

interface Read {
  stored?: StoredHistory
  error?: ApiError
}

/** Queried again as the range advances; the last answer stays meanwhile. */
function useStored(device: string, sensor: string, range: Range): Read {
  const [state, setState] = useState<Read>({})
  const away = useStore(live).connection === 'away'
  useEffect(() => {
    if (away) return
    const abort = new AbortController()
    const ask = (): void => {
      if (document.hidden) return
      const until = Math.floor(now() / 1000)
      const requested = { since: until - RANGES[range], until, buckets: BUCKETS }
      const path = `/api/data/history${query({ device_id: device, sensor_id: sensor, ...requested })}`
      get<StoredHistory>(path, { signal: abort.signal }).then(
        stored => !abort.signal.aborted && setState({ stored }),
        thrown => !abort.signal.aborted && setState({ error: asApiError(thrown) }),
      )
    }
    setState({})
    ask()
    const timer = setInterval(ask, Math.min(60, Math.max(5, RANGES[range] / 300)) * 1000)
    return () => {
      clearInterval(timer)
      abort.abort()
    }
  }, [device, sensor, range, away])
  return state
}

function unitOf(device: string, sensor: string): string | undefined {
  const of = live.value.dashboard?.latest.find(
    ({ device_id, sensors }) => device_id === device && sensors.some(({ id }) => id === sensor),
  )
  return of?.sensors.find(({ id }) => id === sensor)?.unit
}

interface Shown {
  readonly unit: string
  /** shared by all values of a sensor */
  readonly scale: Scale
}

function Numbers({ statistics, newest, unit, scale }: { statistics: Statistics; newest: number | null } & Shown) {
  const facts: [string, number | null][] = [
    ['Latest', newest],
    ['Min', statistics.min],
    ['Mean', statistics.mean],
    ['Max', statistics.max],
  ]
  return (
    <dl class="tiles four">
      {facts.map(([label, value]) => (
        <div class="tile" key={label}>
          <dt>{label}</dt>
          <dd>
            <p class="reading">
              <Value value={value} unit={unit} scale={scale} />
            </p>
          </dd>
        </div>
      ))}
    </dl>
  )
}

interface HistoryPoint {
  /** UNIX seconds */
  readonly t: number
  readonly v: number | null
}

/** The newest readings, including those since the page's query. */
function useNewest(device: string, sensor: string): HistoryPoint[] {
  const path = `/api/data/sensors${query({ device_id: device, sensor_id: sensor, limit: ROWS })}`
  const { data } = useResource<{ sensors: readonly SensorRecord[] }>(path)
  const old = (data?.sensors ?? []).map(row => ({ t: row.timestamp_raw, v: row.normalized_value }))
  const last = old[0]?.t ?? 0
  const seen = history.of(device, sensor)
  const since = seen.t.map((ms, k) => ({ t: ms / 1000, v: seen.v[k]! })).filter(({ t }) => Math.floor(t) > last)
  return [...since.reverse(), ...old].slice(0, ROWS)
}

export function SensorHistory({ device, sensor }: { device: string; sensor: string }) {
  const [range, setRange] = useState<Range>('10min')
  // redraws when readings arrive
  useStore(live)
  const { stored, error } = useStored(device, sensor, range)
  const rows = useNewest(device, sensor)
  const to = now() / 1000
  const from = to - RANGES[range]
  const seen = history.of(device, sensor)
  const values = stored ?? NOTHING
  const statistics = statisticsOf(values, seen, from)
  const changed = values.units.length > 1
  const unit = changed ? '' : values.units[0] || unitOf(device, sensor) || ''
  const scale = scaleOf(unit, Math.max(Math.abs(statistics?.min ?? 0), Math.abs(statistics?.max ?? 0)))
  const drawn = (v: number | null): number | null => (v === null ? null : scaled(v, scale))
  const { t, mean, min, max } = lineOf(values, seen, from)
  const line = { t, mean: mean.map(drawn), min: min.map(drawn), max: max.map(drawn) }
  const total = values.buckets.reduce((sum, { count }) => sum + count, 0)
  return (
    <div class="stack">
      <p>
        <a href={href(['readings'])}>← All readings</a>
      </p>
      <Card
        title={`${sensor} of ${device}`}
        corner={<Choice label="Range" value={range} choices={NAMES} onChoose={next => setRange(next)} />}
      >
        {!statistics ? (
          <Empty>{stored || error ? 'No values in this range' : 'Loading …'}</Empty>
        ) : (
          <Plot
            line={line}
            unit={scale.unit}
            from={from}
            to={to}
            words={`${sensor} over the last ${range}: ${counted(statistics.count, 'value')}`}
          />
        )}
        <p class="quiet small">
          {stored && counted(total, 'stored value')}
          {changed && ` with different units (${values.units.join(', ')}), drawn as they are stored`}
          {error && `Stored values are not available (${error.message}). Shown: values since this page was opened.`}
        </p>
      </Card>
      {statistics && <Numbers statistics={statistics} newest={rows[0]?.v ?? null} unit={unit} scale={scale} />}
      {rows.length > 0 && (
        <Card title="Latest values">
          <Table columns={['Time', ['Value', 'number']]}>
            {rows.map(({ t, v }) => (
              <tr key={t}>
                <td>{new Date(t * 1000).toLocaleString()}</td>
                <td class="number">
                  <Value value={v} unit={unit} scale={scale} />
                </td>
              </tr>
            ))}
          </Table>
        </Card>
      )}
    </div>
  )
}
