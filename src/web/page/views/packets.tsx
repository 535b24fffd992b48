// The stored packets, filtered, in pages; one packet with its readings and its bytes on the wire; and a form to decode
// any packet in hex.
import { readingText } from '../../../units/display'
import { number, timeText } from '../format'
import { fieldsOf } from '../lib/action'
import { query } from '../lib/api'
import { useStore } from '../lib/observable'
import { useResource } from '../lib/resource'
import { go, href, route } from '../lib/route'
import type { Packet } from '../lib/types'
import { Card, Empty, Entry, Loaded, Table } from '../ui/parts'
import { DecodeView, readingsOf } from './decode'
import { PacketView, packetTime } from './packet'

const LIMIT = 25
const VALUES_SHOWN = 4
const REFRESH_MS = 3_000

interface List {
  packets: readonly Packet[]
  total: number
}

/** `cpu_busy 12 % · …`, and the number of further ones */
function summary(payload: Packet['payload_json']): { text: string; more: number } {
  const rows = readingsOf(payload)
  const shown = rows.slice(0, VALUES_SHOWN)
  const text = shown.map(({ id, value, unit }) => `${id} ${readingText(value, unit)}`).join(' · ')
  return { text, more: rows.length - shown.length }
}

function Row({ packet }: { packet: Packet }) {
  const time = packetTime(packet)
  const { text, more } = summary(packet.payload_json)
  return (
    <tr>
      <td class="nowrap">
        <a href={href(['packets', packet.packet_uuid])}>
          <time dateTime={time.toISOString()}>{timeText(time)}</time>
        </a>
      </td>
      <td class="break">{packet.device_id}</td>
      <td class="wide">
        {text}
        {more > 0 && <span class="quiet"> +{more}</span>}
      </td>
      <td class={packet.device_status === 'ONLINE' ? 'roomy' : 'wide'}>{packet.device_status}</td>
    </tr>
  )
}

/** The text of a date field → whole UNIX seconds; undefined if empty. */
const seconds = (text: string | undefined): number | undefined => {
  const ms = text ? Date.parse(text) : Number.NaN
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1000)
}

const FILTERS = ['device_id', 'status', 'since', 'until'] as const

function Filters({ values }: { values: Readonly<Record<string, string>> }) {
  function submit(event: SubmitEvent): void {
    const text = fieldsOf(event)
    go(['packets'], Object.fromEntries(FILTERS.map(name => [name, text(name).trim()])))
  }
  return (
    <form class="form" onSubmit={submit} key={JSON.stringify(values)}>
      <Entry label="Device" id="filter-device" name="device_id" defaultValue={values.device_id} autocapitalize="none" />
      <Entry label="Device status" id="filter-status" name="status" defaultValue={values.status} placeholder="ONLINE" />
      <Entry label="From" id="filter-since" name="since" type="datetime-local" defaultValue={values.since} />
      <Entry label="Until" id="filter-until" name="until" type="datetime-local" defaultValue={values.until} />
      <div class="buttons">
        <button type="submit" class="primary">
          Show
        </button>
        <a class="button" href={href(['packets'])}>
          Clear
        </a>
      </div>
    </form>
  )
}

const described = (values: Readonly<Record<string, string>>): string =>
  FILTERS.filter(name => values[name])
    .map(name => `${name.replace('_id', '')} ${values[name]}`)
    .join(', ') || 'all'

function Stored({ values }: { values: Readonly<Record<string, string>> }) {
  const offset = Math.max(0, Number(values.offset ?? 0) || 0)
  const { device_id, status } = values
  const path = `/api/data/packets${query({
    device_id,
    status,
    since: seconds(values.since),
    until: seconds(values.until),
    limit: LIMIT,
    offset,
  })}`
  // an older page does not change while the user reads it
  const list = useResource<List>(path, offset === 0 ? REFRESH_MS : 0)
  const to = (next: number): string => href(['packets'], { ...values, offset: next > 0 ? String(next) : '' })
  return (
    <div class="stack">
      <details class="card category" open={FILTERS.some(name => values[name])}>
        <summary>
          <h2>Filter</h2>
          <span class="quiet small">{described(values)}</span>
        </summary>
        <Filters values={values} />
      </details>
      <Card title="Stored packets" corner={list.data && <span class="quiet">{number(list.data.total)} in all</span>}>
        <Loaded from={list} what="stored packets">
          {({ packets, total }) => (
            <>
              {packets.length === 0 && <Empty>No matching packets</Empty>}
              {packets.length > 0 && (
                <Table columns={['Time', 'Device', 'Values', 'Status']} class="cards">
                  {packets.map(packet => (
                    <Row key={packet.packet_uuid} packet={packet} />
                  ))}
                </Table>
              )}
              <nav class="pager" aria-label="Pages of packets">
                {offset > 0 ? <a href={to(offset - LIMIT)}>← Newer</a> : <span />}
                <span class="quiet small">
                  {total > 0 && `${number(Math.min(offset + 1, total))} to ${number(Math.min(offset + LIMIT, total))}`}
                </span>
                {offset + LIMIT < total ? <a href={to(offset + LIMIT)}>Older →</a> : <span />}
              </nav>
            </>
          )}
        </Loaded>
      </Card>
    </div>
  )
}

export function Packets() {
  const { path, values } = useStore(route)
  const [, uuid] = path
  const decode = uuid === 'decode'
  return (
    <div class="stack">
      <ul class="tabs" aria-label="Packets">
        <li>
          <a href={href(['packets'])} aria-current={decode ? undefined : 'page'}>
            Stored
          </a>
        </li>
        <li>
          <a href={href(['packets', 'decode'])} aria-current={decode ? 'page' : undefined}>
            Decode hex
          </a>
        </li>
      </ul>
      {uuid === undefined && <Stored values={values} />}
      {decode && <DecodeView key={values.hex} first={values.hex ?? ''} />}
      {uuid !== undefined && !decode && <PacketView uuid={uuid} />}
    </div>
  )
}
