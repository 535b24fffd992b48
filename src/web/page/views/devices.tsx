// Every device in the database, the newest first, with the media of its readings; and devices heard that are not in the
// database yet.
import { isAssigned } from '../../../lib/assigned-id'
import { age, number } from '../format'
import { live, now } from '../lib/live'
import { useStore } from '../lib/observable'
import { useResource, useSeconds } from '../lib/resource'
import { href, route } from '../lib/route'
import type { Device } from '../lib/types'
import { Card, Chip, Empty, Table, Trouble } from '../ui/parts'

const LIMIT = 100
const REFRESH_MS = 5_000

interface DeviceRow {
  id: string
  /** UNIX ms */
  seen: number
  packets: number | null
  media: readonly string[]
  aids: readonly number[]
}

function Rows({ rows }: { rows: readonly DeviceRow[] }) {
  useSeconds()
  return (
    <Table columns={['Device', 'Last seen', 'Via', ['Packets', 'number']]} class="cards">
      {rows.map(({ id, seen, packets, media, aids }) => (
        <tr key={id}>
          <td class="break">
            <a href={href(['readings', id])}>{id}</a>{' '}
            {aids.map(aid => (
              <Chip key={aid}>id {aid}</Chip>
            ))}
          </td>
          <td class="nowrap" title={new Date(seen).toLocaleString()}>
            {age(now(), seen)}
          </td>
          <td>{media.map(way => (way === 'local' ? 'local sensors' : way)).join(', ') || '—'}</td>
          <td class="number">
            {packets === null ? (
              '—'
            ) : (
              <a href={href(['packets'], { device_id: id })}>
                {number(packets)}
                <span class="narrow">{packets === 1 ? ' packet' : ' packets'}</span>
              </a>
            )}
          </td>
        </tr>
      ))}
    </Table>
  )
}

export function Devices() {
  const { values } = useStore(route)
  const { dashboard } = useStore(live)
  const offset = Math.max(0, Number(values.offset ?? 0) || 0)
  const list = useResource<{ devices: readonly Device[]; total: number }>(
    `/api/data/devices?limit=${LIMIT}&offset=${offset}`,
    REFRESH_MS,
  )
  const latest = dashboard?.latest ?? []
  const of = (id: string, seen: number, packets: number | null): DeviceRow => {
    const mine = latest.filter(reading => reading.device_id === id)
    return {
      id,
      seen: Math.max(seen, ...mine.map(reading => reading.t_raw)),
      packets,
      media: [...new Set(mine.map(reading => reading.medium))],
      aids: [...new Set(mine.map(reading => reading.source_aid))].filter(isAssigned),
    }
  }
  const stored = list.data?.devices ?? []
  const known = new Set(stored.map(device => device.device_id))
  const heard = offset === 0 ? [...new Set(latest.map(reading => reading.device_id))].filter(id => !known.has(id)) : []
  const rows = [
    ...stored.map(({ device_id, last_seen, packet_count }) => of(device_id, last_seen * 1000, packet_count)),
    ...heard.map(id => of(id, 0, null)),
  ].sort((a, b) => b.seen - a.seen)
  const total = Math.max(list.data?.total ?? 0, rows.length)
  return (
    <Card title="Devices" corner={<span class="quiet">{number(total)} in all</span>}>
      {list.error && <Trouble error={list.error} what="stored devices" />}
      {rows.length === 0 ? <Empty>No devices yet</Empty> : <Rows rows={rows} />}
      {total > LIMIT && (
        <nav class="pager" aria-label="Pages of devices">
          {offset > 0 ? <a href={href(['devices'], { offset: String(offset - LIMIT) })}>← Back</a> : <span />}
          {offset + LIMIT < total && <a href={href(['devices'], { offset: String(offset + LIMIT) })}>Next →</a>}
        </nav>
      )}
    </Card>
  )
}
