// status: the state of the gateway. Without a running one it uses the files: identity, and the first and last record.
import { aligned, logText } from '../../display'
import type { ForwardingReport, GatewayStatus, LinkStatus } from '../../gateway/status'
import { isAssigned } from '../../lib/assigned-id'
import { counted, rangesText } from '../../lib/counted'
import { asOsError } from '../../lib/errors'
import { mendDisk } from '../../lib/writable'
import { NO_DATABASE, viewProblem } from '../../storage'
import { bytesText, duration, numberText } from '../../units/display'
import type { CommandContext, LogSummary, Via } from '../context'
import type { Paint, Verb } from '../verb'

/** Of a running gateway, or from the files alone. */
type ShownStatus = Omit<GatewayStatus, 'log'> & { log: LogSummary }

async function statusOfFiles({ config, log, version }: CommandContext): Promise<ShownStatus> {
  return {
    version,
    role: 'none',
    uptime_s: 0,
    identity: { device_id: config.get('device_id'), assigned_id: config.get('assigned_id') },
    device_role: config.get('Node_Setting.device_role'),
    time: { quality: 'unknown', offset_ms: 0 },
    links: {},
    log: await log.summary(),
    uplinks: {},
    storage: NO_DATABASE,
    dropped: { rows: 0, packets: 0, records: 0 },
    intake: { readings: 0, facts: 0, rejected_rows: 0, refused_groups: 0, unchanged: 0 },
    received: {},
  }
}

const NOT_PRESENT = 'not present'

function colour(paint: Paint, state: string): string {
  if (state === 'up') return paint.good(state)
  if (state === 'down') return paint.bad(state)
  return state === 'disabled' || state === NOT_PRESENT ? paint.dim(state) : paint.warn(state)
}

/** Aligns columns to their widest cell; the first row is the header. */
export const columns = (rows: readonly (readonly string[])[], paint: Paint): string =>
  aligned(rows)
    .map((line, n) => (n === 0 ? paint.dim(line) : line))
    .join('\n')

type Links = readonly (readonly [string, LinkStatus])[]

/** The reason for a link's state; for a link that works again, its last error and time. */
function note({ reason, last_error, last_error_at }: LinkStatus, now: number): string {
  if (reason !== undefined || last_error === undefined) return reason ?? ''
  const ago = last_error_at === undefined ? '' : ` ${duration(Math.max(0, now - last_error_at) / 1000)} ago`
  return `last error${ago}: ${last_error}`
}

/** Advice about links that are down; the same hint for several links is printed once. */
function hints(links: Links, paint: Paint): string[] {
  const of = new Map<string, string[]>()
  for (const [name, { hint }] of links) if (hint) of.set(hint, [...(of.get(hint) ?? []), name])
  return [...of].map(([hint, names]) => paint.warn(`${names.join(', ')}: ${hint}`))
}

/** The links' further counters and measurements. */
const details = (links: Links): string[] =>
  links.flatMap(([name, { detail = {} }]) => {
    const counted = Object.entries(detail).filter(([, n]) => n !== 0)
    return counted.length === 0
      ? []
      : [
          `${name}: ${counted.map(([what, n]) => `${what} ${what === 'receive_buffer' ? bytesText(n) : numberText(n)}`).join(', ')}`,
        ]
  })

function text(status: ShownStatus, via: Via | undefined, paint: Paint, now = Date.now()): string {
  const { identity, log, time, dropped } = status
  const id = isAssigned(identity.assigned_id) ? `id ${identity.assigned_id}` : 'no id yet'
  const lines = [
    `${paint.bold(identity.device_id || '(device without a name)')}, ${id}, os-node ${status.version}`,
    via === 'gateway'
      ? `running for ${duration(status.uptime_s)}; time ${time.quality}${Math.abs(time.offset_ms) >= 1000 ? ` (${Math.round(time.offset_ms / 1000)} s off the system clock)` : ''}; NTP ${time.ntp?.state ?? 'unknown'}`
      : paint.warn('no gateway is running'),
    logText(log, now),
  ]
  const bad = (line: string) => lines.push(paint.bad(line))
  const warn = (line: string) => lines.push(paint.warn(line))
  if (identity.refused) bad(`no id: the upstream answers ${identity.refused}; readings stay in the log`)
  const { flash } = status
  if (flash) {
    const { device, bytes_written_today: today, endurance_bytes: endurance, wear_percent_year: wear } = flash
    const rate = wear === null ? '' : `, ${numberText(wear)} % of ${numberText(endurance / 1e12)} TB in a year`
    lines.push(`flash ${device}: written today ${bytesText(today)}${rate}`)
  }
  if (status.device_role === 'rx_only')
    warn('upstream: nothing is sent, Node_Setting.device_role is rx_only; readings stay in the log')
  if (log.gaps?.length) bad(`log damaged: records ${rangesText(log.gaps)} are lost; check the disk`)
  if (status.core?.problem) warn(status.core.problem)
  if (status.safe_mode)
    bad(`SAFE MODE: ${status.safe_mode}; links and SQL view are off. os-node safe-mode --leave opens them`)
  if (status.guard && status.guard.level !== 'normal')
    warn(`reduced operation (${status.guard.level}): ${status.guard.reason}`)
  const { ids } = status
  if (ids?.problem) bad(`ids: ${ids.problem}`)
  else if (ids)
    lines.push(`ids: ${ids.allocated} assigned, ${ids.released} ${ids.source === 'pool' ? 'left' : 'free again'}`)
  if (ids?.refused) bad(`ids: ${counted(ids.refused, 'new device')} refused, security_settings.id_max_bytes is full`)
  // a problem that stops the gateway's work is printed before the tables
  if (log.state === 'degraded') {
    bad(`log degraded: ${log.reason ?? 'not written'}; ${counted(log.pending ?? 0, 'record')} in RAM only`)
  }
  if (status.disk)
    lines.push(
      paint.bad(`in RAM only (${status.disk.reason}): ${status.disk.in_ram.join(', ')}`),
      paint.warn(status.disk.hint),
    )
  else if (log.state === 'degraded' && status.role !== 'none') warn(mendDisk)
  if (log.chain) bad(log.chain)
  if (log.check?.unreadable.length)
    bad(`log damaged: ${log.check.unreadable.join(', ')} cannot be read; check the disk`)
  const database = viewProblem(status.storage)
  if (database !== undefined)
    bad(
      `database: ${status.storage.dialect} is down: ${database}${status.storage.missed ? '' : '; the log keeps every record meanwhile'}`,
    )
  if (status.storage.windows?.damaged)
    bad(
      `database: ${counted(status.storage.windows.damaged, 'window')} damaged and not used; records are read from the log if it has them`,
    )
  if (status.storage.missed)
    bad(
      `database: ${counted(status.storage.missed, 'fact')} missed, by a full log or a damaged window; enlarge gateway.log.max_bytes`,
    )
  if (status.needs_restart) warn(`effective at the next start: ${status.needs_restart.join(', ')}`)
  for (const problem of status.login_problems ?? []) bad(`sign-in: ${problem}`)
  if (status.config_problem) warn(`config: ${status.config_problem}`)
  for (const { aid, addresses } of status.shared_ids ?? []) warn(`id ${aid} was heard from ${addresses.join(', ')}`)
  for (const { device_id, sensor_id, status: state, reason } of status.attention ?? []) {
    const what = sensor_id === undefined ? device_id : `${sensor_id} of ${device_id}`
    bad(`${what}: ${state}${reason === undefined ? '' : ` (${reason})`}`)
  }
  const links = Object.entries(status.links)
  if (links.length > 0) {
    const rows = links.map(([name, link]) => [
      name,
      link.state === 'absent' ? NOT_PRESENT : link.state,
      link.delivery ?? '',
      link.rx,
      link.tx,
      link.errors,
      note(link, now),
    ])
    const table = columns(
      [['link', 'state', 'delivery', 'rx', 'tx', 'errors', ''], ...rows.map(row => row.map(String))],
      paint,
    )
    lines.push(
      '',
      table.replace(/^(\S+ +)(up|down|degraded|opening|disabled|not present)/gm, (_, a, b) => a + colour(paint, b)),
      ...hints(links, paint),
      ...details(links),
    )
  }
  const uplinks = Object.entries(status.uplinks)
  if (uplinks.length > 0) {
    const rows = uplinks.map(([name, up]) =>
      [name, up.carrying ? 'active' : 'idle', up.delivery, up.acked, up.sent, up.resent, up.refused, up.secure].map(
        String,
      ),
    )
    lines.push(
      '',
      columns([['uplink', '', 'delivery', 'acked', 'sent', 'resent', 'refused', 'session'], ...rows], paint),
    )
  }
  // in safe mode there are no uplinks and no queue
  if (status.forwarding && !status.safe_mode) lines.push(...forwardingLines(status.forwarding, paint))
  const { refused_plaintext = 0, refused_elsewhere = 0, bad_key: badKey = 0 } = status.received ?? {}
  const plain = refused_plaintext + refused_elsewhere
  if (plain + badKey > 0) lines.push('', paint.warn(`refused: plaintext packets ${plain}, wrong keys ${badKey}`))
  const counts = Object.entries(dropped)
  if (counts.some(([, count]) => count > 0))
    lines.push('', paint.warn(`dropped: ${counts.map(([what, count]) => `${what} ${count}`).join(', ')}`))
  return lines.join('\n')
}

/** The active uplink, the queue, and why it is not the first of the list. */
function forwardingLines(
  { uplink, since, reason, backlog, held_s, aside: oversized }: ForwardingReport,
  paint: Paint,
): string[] {
  const who = uplink ? `${uplink} active since ${new Date(since).toISOString()}` : paint.bad('no active uplink')
  const lines = [`upstream: ${who}; ${counted(backlog, 'fact')} waiting`]
  if (held_s) lines.push(paint.warn(`facts are held for a time sync, ${held_s} s at most: the clock is not confirmed`))
  if (oversized) lines.push(paint.warn(`too large for it, waiting for a larger uplink: ${oversized}`))
  if (reason) lines.push(paint.warn(reason))
  return lines
}

/** Unreadable files because of which the page refuses tokens or users, with advice. */
async function loginProblems(dataDir: string): Promise<string[]> {
  const { storedToken, UserStore } = await import('../../services/users')
  const problems: string[] = []
  for (const read of [() => storedToken(dataDir), () => new UserStore({ dataDir }).list()])
    try {
      read()
    } catch (thrown) {
      const { message, hint } = asOsError(thrown)
      problems.push(`${message}: ${hint}`)
    }
  return problems
}

export const status: Verb<ShownStatus & { via?: Via }> = {
  name: 'status',
  summary: 'show links, log and uplinks',
  examples: ['os-node status', 'os-node status --json'],
  where: 'either',
  async run(context) {
    const value: ShownStatus = context.gateway ? context.gateway.status() : await statusOfFiles(context)
    const problems = await loginProblems(context.config.dataDir)
    return { value: problems.length > 0 ? { ...value, login_problems: problems } : value }
  },
  text: (value, paint) => text(value, value.via, paint),
}
