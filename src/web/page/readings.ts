// The live readings: one card per device and way, one tile per sensor with value, age and the line of the values seen
// since the page was opened.
import type { Readings, Sensor } from './api'
import { byId, el, List, setAttribute, setText, show, svg, type View } from './dom'
import { age, friendly, sparkline } from './format'

const SEEN = 40
const WIDTH = 120
const HEIGHT = 26
/** a value this much older than the newest of its device is shown as old */
const OLD_MS = 60_000

interface Tile extends Sensor {
  t_raw: number
}

interface Group {
  device_id: string
  medium: string
  source_aid: number
  newest: number
  tiles: Tile[]
  now: number
}

/** Sources of one device that came the same way share a card. */
function group(latest: readonly Readings[], now: number): Group[] {
  const groups = new Map<string, Group>()
  for (const { device_id, medium, source_aid, t_raw, sensors } of latest) {
    const key = groupKey({ device_id, medium, source_aid })
    let one = groups.get(key)
    if (!one) {
      one = { device_id, medium, source_aid, newest: 0, tiles: [], now }
      groups.set(key, one)
    }
    one.newest = Math.max(one.newest, t_raw)
    for (const sensor of sensors) one.tiles.push({ ...sensor, t_raw })
  }
  // own sensors first, then by name
  return [...groups.values()].sort(
    (a, b) =>
      Number(b.medium === 'local') - Number(a.medium === 'local') ||
      a.device_id.localeCompare(b.device_id) ||
      a.medium.localeCompare(b.medium),
  )
}

const groupKey = (g: { device_id: string; medium: string; source_aid: number }): string =>
  JSON.stringify([g.device_id, g.medium, g.source_aid])

function tileView(first: Tile & { now: number }): View<Tile & { now: number }> {
  const value = el('span', { class: 'value' })
  const unit = el('span', { class: 'unit' })
  const reading = el('p', { class: 'reading' }, value, ' ', unit)
  const when = el('span', { class: 'when' })
  const fault = el('span', { class: 'fault' })
  const line = svg('polyline', { points: '', class: 'line' })
  const box = svg('svg', {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    preserveAspectRatio: 'none',
    'aria-hidden': 'true',
    class: 'spark',
  })
  box.append(line)
  const node = el(
    'li',
    { class: 'tile' },
    el('h4', {}, first.id),
    reading,
    box,
    el('p', { class: 'foot' }, when, fault),
  )
  const seen: number[] = []
  let lastSeen = 0
  return {
    node,
    update(tile) {
      if (tile.t_raw !== lastSeen) {
        lastSeen = tile.t_raw
        if (tile.value !== null) seen.push(tile.value)
        if (seen.length > SEEN) seen.shift()
        setAttribute(line, 'points', sparkline(seen, WIDTH, HEIGHT, SEEN))
      }
      const text = friendly(tile.value, tile.unit)
      setText(value, text.value)
      setText(unit, text.unit)
      setAttribute(reading, 'title', `${text.canonical}, ${new Date(tile.t_raw).toLocaleString()}`)
      const wrong = tile.status !== 'OK'
      setText(fault, wrong ? tile.status : '')
      setAttribute(node, 'data-fault', String(wrong))
      setAttribute(node, 'data-old', String(tile.now - tile.t_raw > OLD_MS))
      setText(when, age(tile.now, tile.t_raw))
    },
  }
}

function groupView(first: Group): View<Group> {
  const when = el('span', { class: 'quiet' })
  const tiles = el('ul', { class: 'tiles' })
  const list = new List<Tile & { now: number }>(tiles, tile => tile.id, tileView)
  const way = first.medium === 'local' ? 'own sensors' : `by ${first.medium}`
  const node = el(
    'article',
    { class: 'card' },
    el(
      'header',
      { class: 'group' },
      el('h3', {}, first.device_id),
      el('span', { class: 'chip' }, way),
      el('span', { class: 'chip' }, first.source_aid === 4294967295 ? 'no id yet' : `id ${first.source_aid}`),
      when,
    ),
    tiles,
  )
  return {
    node,
    update({ tiles: items, newest, now }) {
      setText(when, age(now, newest))
      const byName = new Map(items.map(tile => [tile.id, { ...tile, now }]))
      list.update([...byName.values()])
    },
  }
}

/** `now`: the gateway's clock in milliseconds. */
export function createReadings(): (latest: readonly Readings[], now: number) => void {
  const list = new List<Group>(byId('readings'), groupKey, groupView)
  const empty = byId('readings-empty')
  return (latest, now) => {
    const groups = group(latest, now)
    list.update(groups)
    show(empty, groups.length === 0)
  }
}
