// The state of the gateway: problems first, then throughput, loss, flash and time, then every link.
import { viewProblem } from '../../../storage/view-problem'
import { bytes, bytesText, duration } from '../../../units/display'
import { age, counted, notices, number } from '../format'
import { live, meter, now } from '../lib/live'
import { useStore } from '../lib/observable'
import { comesIn } from '../lib/rates'
import { useSeconds } from '../lib/resource'
import type { LinkInfo, Status, UplinkInfo } from '../lib/types'
import { Card, Empty, Pill, Spark } from '../ui/parts'

/** how the packets of an uplink are acknowledged */
const DELIVERY: Record<string, string> = {
  acked: 'acknowledged',
  best_effort: 'best effort',
  probing: 'probing the peer',
  silent: 'no answer',
}

const sum = (counts: readonly (number | undefined)[]): number => counts.reduce<number>((all, n) => all + (n ?? 0), 0)

function Notices({ status }: { status: Status }) {
  const all = notices(status)
  if (all.length === 0) return null
  return (
    <ul class="card notices" aria-label="Needs attention">
      {all.map(({ kind, text, bad }) => (
        <li key={kind} data-bad={bad}>
          {text}
        </li>
      ))}
    </ul>
  )
}

interface FactProps {
  label: string
  value: string
  unit?: string
  note?: string
  state?: 'good' | 'warn' | 'bad'
  line?: readonly number[]
}

const Fact = ({ label, value, unit = '', note = '', state, line }: FactProps) => (
  <div class="tile" data-mark={state}>
    <dt>{label}</dt>
    <dd>
      <p class="reading">
        <span class="value">{value}</span> {unit !== '' && <span class="unit">{unit}</span>}
      </p>
      {line && <Spark values={line} />}
      {note !== '' && <p class="foot">{note}</p>}
    </dd>
  </div>
)

const QUALITY: Record<string, 'good' | 'warn'> = { synced: 'good', server: 'good', ntp: 'good' }

function timeNote({ time }: Status): string {
  const parts = [
    time.source ? `by ${time.source}` : '',
    time.last_sync ? `synced ${age(now(), time.last_sync)}` : '',
    time.offset_ms ? `${number(time.offset_ms)} ms from the system clock` : '',
  ]
  return parts.filter(Boolean).join(' · ') || 'system clock, not synchronized'
}

const logFill = ({ bytes: size, max_bytes: most, oldest }: Status['log']): string =>
  [`${Math.round((size / most) * 100)} % full`, oldest ? `oldest ${age(now(), oldest)}` : '']
    .filter(Boolean)
    .join(' · ')

function Facts({ status }: { status: Status }) {
  const { log, dropped, forwarding, storage, guard, flash } = status
  const { damaged = 0 } = log
  const unreadable = log.check?.unreadable.length ?? 0
  const lost = log.lost + damaged + sum([dropped.rows, dropped.packets, dropped.records])
  const backlog = forwarding?.backlog ?? Math.max(0, ...Object.values(status.uplinks).map(uplink => uplink.backlog))
  // a device that this machine lacks is no fault
  const states = Object.values(status.links).flatMap(link => (link.state === 'absent' ? [] : [link.state]))
  const up = states.filter(state => state === 'up').length
  const rates = meter.rates
  const comes = comesIn(status)
  const uplinks = Object.values(status.uplinks)
  // the active uplink; if there is none yet, any
  const active = uplinks.find(({ carrying }) => carrying) ?? uplinks[0]
  const bestEffort = active?.delivery === 'best_effort'
  const stored = bytes(log.bytes)
  const notSafe = log.last_seq - log.committed_seq
  return (
    <dl class="tiles">
      <Fact
        label="Links up"
        value={`${up} / ${states.length}`}
        state={up < states.length ? 'warn' : undefined}
        note={up < states.length ? `${states.length - up} not up` : up === 0 ? 'no links' : 'all up'}
      />
      <Fact
        label={comes === 'readings' ? 'Readings in' : 'Packets in'}
        value={rates ? number(rates[comes], 3) : '—'}
        unit="/s"
        line={meter.lines[comes]}
        note={`${number((comes === 'readings' ? status.intake?.readings : status.received?.packets) ?? 0)} since start`}
      />
      <Fact
        label={bestEffort ? 'Sent upstream' : 'Acknowledged upstream'}
        value={rates ? number(bestEffort ? rates.sent : rates.acked, 3) : '—'}
        unit="/s"
        line={bestEffort ? meter.lines.sent : meter.lines.acked}
        note={`${number(backlog)} waiting${bestEffort ? ' · best effort, nothing confirms them' : ''}`}
        state={backlog > 1000 ? 'warn' : undefined}
      />
      <Fact
        label="Lost or dropped"
        value={number(lost)}
        state={lost > 0 ? 'bad' : undefined}
        note={
          lost > 0
            ? `rows ${number(dropped.rows)}, packets ${number(dropped.packets)}, records ${number(dropped.records + log.lost + damaged)}`
            : 'none since start'
        }
      />
      <Fact
        label="Log on flash"
        value={stored.value}
        unit={stored.unit}
        line={meter.lines.bytes}
        note={
          damaged + unreadable > 0
            ? `damaged: ${counted(damaged, 'record')} lost${unreadable > 0 ? `, ${counted(unreadable, 'file')} unreadable` : ''}`
            : `${logFill(log)} · ${bytesText(log.bytes_written_today)} written today · ${number(notSafe)} not yet on flash`
        }
        state={damaged + unreadable > 0 || (log.state && log.state !== 'ok') ? 'bad' : undefined}
      />
      {flash && (
        <Fact
          label="Flash wear"
          value={flash.wear_percent_year === null ? '—' : number(flash.wear_percent_year, 3)}
          unit="%/year"
          note={`of ${number(flash.endurance_bytes / 1e12)} TB · ${bytesText(flash.bytes_written_today)} written to ${flash.device} today`}
          state={(flash.wear_percent_year ?? 0) > 20 ? 'warn' : undefined}
        />
      )}
      <Fact
        label="Time"
        value={status.time.quality}
        note={timeNote(status)}
        state={QUALITY[status.time.quality] ?? (status.time.quality === 'unsynced' ? 'warn' : undefined)}
      />
      <Fact
        label="Database"
        value={storage.state ?? 'off'}
        note={
          viewProblem(storage) ??
          `${counted(storage.packets ?? 0, 'packet')} stored · ${number(storage.lag_records)} pending${storage.missed ? ` · ${number(storage.missed)} missed` : ''}`
        }
        state={viewProblem(storage) === undefined && !storage.missed ? undefined : 'bad'}
      />
      {guard?.rss !== undefined && guard.limit !== undefined && (
        <Fact
          label="Memory"
          value={bytes(guard.rss).value}
          unit={bytes(guard.rss).unit}
          note={`of ${bytesText(guard.limit)} · event loop ${number(guard.lag_p99_ms ?? 0)} ms`}
          state={guard.level === 'normal' ? undefined : 'warn'}
        />
      )}
    </dl>
  )
}

const ORDER: Record<string, number> = { down: 0, degraded: 1, opening: 2, up: 3, absent: 4 }

function LinkRow({ name, link }: { name: string; link: LinkInfo }) {
  const wait = link.retry_at === undefined ? 0 : Math.ceil((link.retry_at - now()) / 1000)
  const absent = link.state === 'absent'
  const retry = link.retry_at === undefined || absent ? '' : wait > 0 ? `retry in ${duration(wait)}` : 'retrying'
  const why = [link.reason, retry].filter(Boolean).join(' · ')
  const delivery = link.delivery === null ? '' : `${DELIVERY[link.delivery] ?? link.delivery} · `
  const refused = link.detail?.refused_readings ?? 0
  const faults =
    (link.errors > 0 ? ` · ${counted(link.errors, 'error')}` : '') +
    (refused > 0 ? ` · ${counted(refused, 'refused reading')}` : '')
  const traffic =
    link.kind === 'source' && link.tx === 0
      ? counted(link.rx, 'reading')
      : `${number(link.rx)} in · ${number(link.tx)} out`
  return (
    <li>
      <div class="row">
        <h3>
          {name} {link.type && link.type !== name && <span class="quiet small">{link.type}</span>}
        </h3>
        <Pill state={link.state} text={absent ? 'not present' : undefined} />
      </div>
      {absent && (
        <p class="counts" title={why}>
          Not present on this machine. {link.kind === 'source' && 'Remove the source to hide this.'}
        </p>
      )}
      {link.state !== 'up' && !absent && why !== '' && <p class="note">{why}</p>}
      {link.state !== 'up' && !absent && link.hint && <p class="counts">{link.hint}</p>}
      {!absent && <p class="counts">{`${delivery}${traffic}${faults}`}</p>}
    </li>
  )
}

function Links({
  title,
  links,
  empty,
}: {
  title: string
  links: readonly (readonly [string, LinkInfo])[]
  empty: string
}) {
  const sorted = [...links].sort(([, a], [, b]) => (ORDER[a.state] ?? 2) - (ORDER[b.state] ?? 2))
  return (
    <Card title={title}>
      {sorted.length === 0 && <Empty>{empty}</Empty>}
      <ul class="rows">
        {sorted.map(([name, link]) => (
          <LinkRow key={name} name={name} link={link} />
        ))}
      </ul>
    </Card>
  )
}

function Uplinks({ status }: { status: Status }) {
  const { forwarding, uplinks } = status
  const rows = Object.entries(uplinks)
  return (
    <Card title="Upstream">
      {forwarding?.reason && <p class="note gap">{forwarding.reason}</p>}
      {rows.length === 0 && (
        <Empty>
          {status.device_role === 'rx_only'
            ? 'Nothing is sent because Node_Setting.device_role is rx_only. All readings stay in the log.'
            : 'No uplink is active: all readings stay in the log.'}
        </Empty>
      )}
      <ul class="rows">
        {rows.map(([name, uplink]) => (
          <UplinkRow key={name} name={name} uplink={uplink} link={status.links[name]?.state ?? 'up'} />
        ))}
      </ul>
    </Card>
  )
}

function UplinkRow({ name, uplink, link }: { name: string; uplink: UplinkInfo; link: string }) {
  const { backlog, acked, sent, resent, carrying, secure, round_trip_ms } = uplink
  // a few records are always in transit
  const behind = backlog > 100
  return (
    <li>
      <div class="row">
        <h3>{name}</h3>
        {link !== 'up' ? (
          <Pill state={link} />
        ) : (
          <Pill
            state={behind ? 'degraded' : carrying === false ? 'idle' : 'up'}
            text={behind ? `${number(backlog)} waiting` : carrying === false ? 'Idle' : 'Up to date'}
          />
        )}
      </div>
      <p class="counts">
        {[
          backlog > 0 && !(behind && link === 'up') ? `${number(backlog)} waiting` : '',
          `${number(acked)} delivered`,
          sent ? `${number(sent)} sent, not confirmed` : '',
          resent > 0 ? `${number(resent)} sent again` : '',
          secure === 'secure' ? 'encrypted' : '',
          round_trip_ms ? `${number(round_trip_ms, 3)} ms` : '',
        ]
          .filter(Boolean)
          .join(' · ')}
      </p>
    </li>
  )
}

export function Overview() {
  const { dashboard } = useStore(live)
  useSeconds()
  if (!dashboard) return <Empty>Loading …</Empty>
  const { status } = dashboard
  const links = Object.entries(status.links)
  return (
    <div class="stack">
      <Notices status={status} />
      <Facts status={status} />
      <div class="columns">
        <Links
          title="Links"
          links={links.filter(([, link]) => link.kind !== 'source')}
          empty="No medium or serial line is configured."
        />
        <Uplinks status={status} />
        <Links
          title="Sources"
          links={links.filter(([, link]) => link.kind === 'source')}
          empty="No source is configured."
        />
      </div>
    </div>
  )
}
