// The history of one sensor: a plot over a chosen range, its least, mean and greatest value, and the newest readings as a
// table. Where nothing is stored, what was seen since the page was opened.
import { useEffect, useState } from 'preact/hooks'
import { counted, friendlyScale } from '../format'
import { type ApiError, asApiError } from '../lib/api'
import { joined } from '../lib/history'
import { history, live, now } from '../lib/live'
import { href } from '../lib/route'
import { type Samples, samples } from '../lib/samples'
import { useStore } from '../lib/store'
import { Card, Choice, Empty, Value } from '../ui/parts'
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

function useSamples(device: string, sensor: string, range: Range): { stored?: Samples; error?: ApiError } {
  const [state, setState] = useState<{ stored?: Samples; error?: ApiError }>({})
  const away = useStore(live).connection === 'away'
  useEffect(() => {
    setState({})
    if (away) return
    const abort = new AbortController()
    const until = Math.floor(now() / 1000)
    samples(device, sensor, until - RANGES[range], until, abort.signal).then(
      stored => !abort.signal.aborted && setState({ stored }),
      thrown => !abort.signal.aborted && setState({ error: asApiError(thrown) }),
    )
    return () => abort.abort()
  }, [device, sensor, range, away])
  return state
}

function unitOf(device: string, sensor: string): string | undefined {
  const of = live.value.dashboard?.latest.find(
    ({ device_id, sensors }) => device_id === device && sensors.some(({ id }) => id === sensor),
  )
  return of?.sensors.find(({ id }) => id === sensor)?.unit
}

function Numbers({ v, unit }: { v: readonly (number | null)[]; unit: string }) {
  const values = v.filter((value): value is number => value !== null)
  if (values.length === 0) return null
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  const facts: [string, number][] = [
    ['Newest', values.at(-1)!],
    ['Least', Math.min(...values)],
    ['Mean', mean],
    ['Greatest', Math.max(...values)],
  ]
  return (
    <dl class="tiles four">
      {facts.map(([label, value]) => (
        <div class="tile" key={label}>
          <dt>{label}</dt>
          <dd>
            <p class="reading">
              <Value value={value} unit={unit} />
            </p>
          </dd>
        </div>
      ))}
    </dl>
  )
}

const toldOf = ({ sampled, total, t }: Samples): string =>
  sampled ? `${t.length} of ${total.toLocaleString('en')} stored values, evenly spread` : counted(total, 'stored value')

export function SensorHistory({ device, sensor }: { device: string; sensor: string }) {
  const [range, setRange] = useState<Range>('10min')
  // drawn again as readings come
  useStore(live)
  const { stored, error } = useSamples(device, sensor, range)
  const to = now() / 1000
  const from = to - RANGES[range]
  const line = joined(stored ?? { t: [], v: [] }, history.of(device, sensor), from)
  const unit = stored?.unit || unitOf(device, sensor) || ''
  const scale = friendlyScale(line.v, unit)
  const rows = line.t.map((t, k) => ({ t, v: line.v[k] ?? null })).slice(-ROWS)
  return (
    <div class="stack">
      <p>
        <a href={href(['readings'])}>← All readings</a>
      </p>
      <Card
        title={`${sensor} of ${device}`}
        aside={<Choice label="Range" value={range} choices={NAMES} onChoose={next => setRange(next)} />}
      >
        {line.t.length === 0 ? (
          <Empty>{stored || error ? 'No value in this range.' : 'Loading …'}</Empty>
        ) : (
          <Plot
            t={line.t}
            v={line.v.map(value => (value === null ? null : scale.of(value)))}
            unit={scale.unit}
            from={from}
            to={to}
            words={`${sensor} over the last ${range}: ${counted(line.t.length, 'value')}`}
          />
        )}
        <p class="quiet small">
          {stored && toldOf(stored)}
          {error && `Nothing stored (${error.message}): values since this page was opened.`}
        </p>
      </Card>
      <Numbers v={line.v} unit={unit} />
      {rows.length > 0 && (
        <Card title="Newest values">
          <div class="scroll">
            <table>
              <thead>
                <tr>
                  <th scope="col">Time</th>
                  <th scope="col" class="number">
                    Value
                  </th>
                </tr>
              </thead>
              <tbody>
                {rows.reverse().map(({ t, v }) => (
                  <tr key={t}>
                    <td>{new Date(t * 1000).toLocaleString()}</td>
                    <td class="number">
                      <Value value={v} unit={unit} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Card>
      )}
    </div>
  )
}
