// The live readings: one card per device and medium, one tile per sensor with value, age and a sparkline since the page
// was opened; or table rows if web_user.ui.ui_layout is `list`. Each links to the history of its sensor.
import { useState } from 'preact/hooks'
import { isAssigned } from '../../../lib/assigned-id'
import { age, number } from '../format'
import { history, live, now, ui } from '../lib/live'
import { useStore } from '../lib/observable'
import { useSeconds } from '../lib/resource'
import { href, route } from '../lib/route'
import type { Readings as Latest, SensorValue } from '../lib/types'
import { Chip, Empty, Search, Spark, Value } from '../ui/parts'
import { SensorHistory } from './history'

/** a value this much older than the newest of its device is marked as old */
const OLD_MS = 120_000
/** devices shown, and the number from which on there is a search */
const SHOWN = 40
const SEARCH_FROM = 6

interface Tile extends SensorValue {
  t_raw: number
}

interface Group {
  key: string
  device_id: string
  medium: string
  source_aid: number
  newest: number
  tiles: Map<string, Tile>
}

/** Sources of one device over the same medium share a card; own sensors first, then by name. */
function groups(latest: readonly Latest[]): Group[] {
  const found = new Map<string, Group>()
  for (const { device_id, medium, source_aid, t_raw, sensors } of latest) {
    const key = JSON.stringify([device_id, medium, source_aid])
    let one = found.get(key)
    if (!one) {
      one = { key, device_id, medium, source_aid, newest: 0, tiles: new Map() }
      found.set(key, one)
    }
    one.newest = Math.max(one.newest, t_raw)
    for (const sensor of sensors) {
      if ((one.tiles.get(sensor.id)?.t_raw ?? 0) <= t_raw) one.tiles.set(sensor.id, { ...sensor, t_raw })
    }
  }
  return [...found.values()].sort(
    (a, b) =>
      Number(b.medium === 'local') - Number(a.medium === 'local') ||
      a.device_id.localeCompare(b.device_id) ||
      a.medium.localeCompare(b.medium),
  )
}

function TileView({ device, tile }: { device: string; tile: Tile }) {
  const at = now()
  const wrong = tile.status !== 'OK'
  return (
    <li>
      <a
        class="tile"
        href={href(['readings', device, tile.id])}
        data-mark={wrong ? 'bad' : undefined}
        data-old={at - tile.t_raw > OLD_MS}
      >
        <span class="name">{tile.id}</span>
        <span class="reading">
          <Value value={tile.value} unit={tile.unit} />
        </span>
        <Spark values={history.of(device, tile.id).v} />
        <span class="foot">
          <span>{age(at, tile.t_raw)}</span>
          {wrong && <span class="fault">{tile.status}</span>}
        </span>
      </a>
    </li>
  )
}

function ListView({ device, tiles }: { device: string; tiles: readonly Tile[] }) {
  return (
    <table>
      <thead class="hidden">
        <tr>
          <th scope="col">Sensor</th>
          <th scope="col">Value</th>
          <th scope="col">Age</th>
        </tr>
      </thead>
      <tbody>
        {tiles.map(({ id, value, unit, status, t_raw }) => (
          <tr key={id}>
            <td class="break">
              <a href={href(['readings', device, id])}>{id}</a>
            </td>
            <td class="nowrap number">
              <Value value={value} unit={unit} /> {status !== 'OK' && <span class="fault">{status}</span>}
            </td>
            <td class="nowrap number quiet small">{age(now(), t_raw)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function GroupView({ group }: { group: Group }) {
  const { device_id, medium, source_aid, newest, tiles } = group
  const sorted = [...tiles.values()].sort((a, b) => a.id.localeCompare(b.id, 'en', { numeric: true }))
  return (
    <section class="card" aria-label={device_id}>
      <div class="group">
        <h2>{device_id}</h2>
        <Chip>{medium === 'local' ? 'local sensors' : `via ${medium}`}</Chip>
        <Chip>{isAssigned(source_aid) ? `id ${source_aid}` : 'no id yet'}</Chip>
        <span class="quiet">{age(now(), newest)}</span>
      </div>
      {ui.value.ui_layout === 'list' ? (
        <ListView device={device_id} tiles={sorted} />
      ) : (
        <ul class="tiles">
          {sorted.map(tile => (
            <TileView key={tile.id} device={device_id} tile={tile} />
          ))}
        </ul>
      )}
    </section>
  )
}

/** every word is in the device's name or in one of its sensors' names */
const fits = ({ device_id, medium, tiles }: Group, words: readonly string[]): boolean => {
  const text = `${device_id} ${medium} ${[...tiles.keys()].join(' ')}`.toLowerCase()
  return words.every(word => text.includes(word))
}

export function Readings() {
  const { dashboard } = useStore(live)
  const { path } = useStore(route)
  const [search, setSearch] = useState('')
  useSeconds()
  const [, device, sensor] = path
  if (device !== undefined && sensor !== undefined) return <SensorHistory device={device} sensor={sensor} />
  if (!dashboard) return <Empty>Loading …</Empty>
  const found = groups(dashboard.latest).filter(group => device === undefined || group.device_id === device)
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  const all = words.length > 0 ? found.filter(group => fits(group, words)) : found
  return (
    <div class="stack">
      {device === undefined && found.length > SEARCH_FROM && (
        <div class="card fieldset">
          <Search id="readings-search" label="Find a device or sensor" text={search} onText={setSearch} />
        </div>
      )}
      {device !== undefined && (
        <p>
          <a href={href(['readings'])}>← All devices</a>
        </p>
      )}
      {found.length > 0 && all.length === 0 && <p class="card quiet">No matching devices</p>}
      {found.length === 0 && (
        <p class="card quiet">
          {device === undefined
            ? 'No readings yet. Each source reports after its first interval.'
            : `No readings from ${device} since the gateway started.`}
        </p>
      )}
      {all.slice(0, SHOWN).map(group => (
        <GroupView key={group.key} group={group} />
      ))}
      {all.length > SHOWN && <p class="card quiet">{number(all.length - SHOWN)} more devices: use the search above.</p>}
    </div>
  )
}
