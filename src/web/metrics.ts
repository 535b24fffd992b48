// GET /metrics: counters and states as Prometheus text (exposition format 0.0.4). Names never change; values that the
// gateway does not report are skipped.
import type { GatewayStatus } from '../gateway/status'
import type { Call } from './route'

type Labels = Readonly<Record<string, string>>
type Sample = readonly [value: number | boolean | undefined | null, labels?: Labels]

/** keys of status.received that can also decrease */
const RECEIVER_GAUGES = new Set([
  'peers',
  'sessions',
  'sources',
  'sources_spilled',
  'duplicate_bytes',
  'template_bytes',
  'spill_bytes',
])

const escapeLabel = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

const labelText = (labels: Labels): string => {
  const all = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`)
  return all.length > 0 ? `{${all.join(',')}}` : ''
}

type Link = GatewayStatus['links'][string]
type Uplink = GatewayStatus['uplinks'][string]
type MetricRow<T> = readonly [name: string, help: string, pick: (one: T) => Sample[0]]

const LINK_ROWS: readonly MetricRow<Link>[] = [
  ['link_up', 'the link is up or degraded', ({ state }) => state === 'up' || state === 'degraded'],
  ['link_state', 'state of the link, always 1', () => 1],
  ['link_received_total', 'packets or readings received', link => link.rx],
  ['link_sent_total', 'packets sent', link => link.tx],
  ['link_errors_total', 'errors of the link', link => link.errors],
]
const UPLINK_ROWS: readonly MetricRow<Uplink>[] = [
  ['uplink_backlog', 'facts without acknowledgement yet', uplink => uplink.backlog],
  ['uplink_acknowledged_total', 'packets the upstream confirmed', uplink => uplink.acked],
  ['uplink_sent_total', 'packets sent best effort', uplink => uplink.sent],
  ['uplink_resent_total', 'packets sent again', uplink => uplink.resent],
  ['uplink_carrying', 'this uplink is active', uplink => uplink.carrying],
]

class Metrics {
  text = ''

  /** A name that ends with _total is a counter. */
  add(name: string, help: string, samples: readonly Sample[]): void {
    const lines = samples.flatMap(([value, labels = {}]) =>
      value === undefined || value === null ? [] : [`os_node_${name}${labelText(labels)} ${Number(value)}`],
    )
    if (lines.length > 0)
      this.text += `# HELP os_node_${name} ${help}\n# TYPE os_node_${name} ${name.endsWith('_total') ? 'counter' : 'gauge'}\n${lines.join('\n')}\n`
  }

  one(name: string, help: string, value: Sample[0]): void {
    this.add(name, help, [[value]])
  }

  /** Prints each row once, with a sample for each of `all`. */
  each<T>(
    all: Readonly<Record<string, T>>,
    rows: readonly MetricRow<T>[],
    labels: (key: string, one: T, row: string) => Labels,
  ) {
    for (const [name, help, pick] of rows) {
      const samples = Object.entries(all).map(([key, one]) => [pick(one), labels(key, one, name)] as const)
      this.add(name, help, samples)
    }
  }
}

/** The text for one scrape. */
export function metricsText({ context, service }: Pick<Call, 'context' | 'service'>): string {
  const status = context.status()
  const m = new Metrics()
  const { log, intake, dropped, storage, time, guard, flash } = status
  m.add('build_info', 'version of os-node, always 1', [[1, { version: status.version }]])
  m.one('uptime_seconds', 'time since the start', status.uptime_s)
  m.one('time_synced', 'the clock is synchronized', time.quality !== 'unsynced' && time.quality !== 'unknown')
  m.one('log_committed_seq', 'newest record on flash', log.committed_seq)
  m.one('log_bytes', 'size of the log', log.bytes)
  m.one('log_max_bytes', 'size limit of the log', log.max_bytes)
  m.one('log_oldest_timestamp_seconds', 'UNIX time of the oldest part of the log', log.oldest && log.oldest / 1000)
  m.one('log_lost_records_total', 'records lost to damage or lack of space', log.lost + (log.damaged ?? 0))
  m.one('log_unreadable_segments', 'files of the log that cannot be read', log.check?.unreadable.length)
  m.one('log_written_today_bytes', 'bytes of the log written since midnight UTC', log.bytes_written_today)
  m.one('flash_written_today_bytes', 'bytes written to the partition today', flash?.bytes_written_today)
  m.one('flash_wear_percent_year', 'percent of the endurance per year', flash?.wear_percent_year)
  for (const [name, value] of Object.entries(intake ?? {}))
    m.one(`intake_${name}_total`, `own readings: ${name.replaceAll('_', ' ')}`, value)
  const received = Object.entries(status.received ?? {})
  const samples = (gauges: boolean): Sample[] =>
    received.filter(([what]) => RECEIVER_GAUGES.has(what) === gauges).map(([what, value]) => [value, { what }])
  m.add('received_total', 'packets of other nodes by result', samples(false))
  m.add('receiver', 'what the receiver holds', samples(true))
  m.add(
    'dropped_total',
    'what was dropped',
    Object.entries(dropped).map(([what, value]) => [value, { what }]),
  )
  m.each(
    status.links,
    LINK_ROWS,
    (link, { kind = '', type = '', state }, row): Labels =>
      row === 'link_state' ? { link, state } : { link, kind, type },
  )
  m.each(status.uplinks, UPLINK_ROWS, uplink => ({ uplink }))
  m.one('storage_lag_records', 'records the SQL view does not have yet', storage.lag_records)
  m.one(
    'storage_missed_total',
    'facts lost to the SQL view: dropped by the log, or in a damaged window',
    storage.missed,
  )
  m.one('guard_safe_mode', 'safe mode: links and SQL view are off', guard && status.safe_mode !== undefined)
  const memory = process.memoryUsage()
  m.one('process_resident_memory_bytes', 'memory of the process', memory.rss)
  m.one('process_heap_used_bytes', 'heap in use', memory.heapUsed)
  const { connections, dropped_connections, cut_connections, event_streams, dropped_events, sessions, ...answers } =
    service.http
  m.add(
    'http_responses_total',
    'answers of the HTTP service',
    Object.entries(answers).map(([status, value]) => [value, { class: status }]),
  )
  m.one('http_connections', 'open connections', connections)
  m.one('http_dropped_connections_total', 'connections closed at the limit', dropped_connections)
  m.one('http_cut_connections_total', 'connections cut for unread answers', cut_connections)
  m.one('http_event_streams', 'open streams of events', event_streams)
  m.one('http_dropped_events_total', 'readings left out of event streams that read too slowly', dropped_events)
  m.one('http_sessions', 'sessions that are kept', sessions)
  m.one('http_uptime_seconds', 'time since the HTTP service started', service.uptimeS)
  const { counters, running, queued } = context.jobs
  m.one('jobs_total', 'commands run over HTTP', counters.total)
  m.one('jobs_failed_total', 'commands over HTTP that failed or were cut off', counters.failed)
  m.one('jobs_running', 'commands over HTTP that run', running)
  m.one('jobs_queued', 'commands over HTTP that wait', queued)
  return m.text
}
