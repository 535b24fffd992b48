// Formats counts, times, lines and notices for people; measured values are in units/display.ts. Pure: no DOM, so that
// the same file is tested in Node.
import { plural } from '../../lib/counted'
import { isMoment } from '../../units/display'

/** About four digits, with the same number of decimals for similar values: 0.042, 3.142, 42.5, 1,013. */
export function number(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return '—'
  const size = Math.abs(value)
  if (Number.isInteger(value) && size < 1e7) return value.toLocaleString('en')
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2)
  const decimals = Math.min(3, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.max(size, 1)))))
  return value.toLocaleString('en', { minimumFractionDigits: decimals, maximumFractionDigits: decimals })
}

/** `1 packet`, `2,000 packets` */
export const counted = (count: number, name: string): string => `${number(count)} ${plural(count, name)}`

/** How long ago, in one unit; `now` and `then` in milliseconds. */
export function age(now: number, then: number): string {
  const s = Math.floor((now - then) / 1000)
  if (s < 2) return 'now'
  if (s < 60) return `${s} s ago`
  if (s < 3600) return `${Math.floor(s / 60)} min ago`
  if (s < 86_400) return `${Math.floor(s / 3600)} h ago`
  return `${Math.floor(s / 86_400)} d ago`
}

/** The time of day, with the date unless it is today. */
export const timeText = (time: Date): string =>
  time.toDateString() === new Date().toDateString() ? time.toLocaleTimeString() : time.toLocaleString()

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d[\d:.]*Z$/

/** A number with such a name, or an ISO text, as local date and time; undefined for anything else. */
export function momentText(name: string, value: unknown): string | undefined {
  return isMoment(name, value) || ISO.test(String(value))
    ? new Date(value as number | string).toLocaleString()
    : undefined
}

/** Points of a polyline in a box of `width` × `height`, the newest at the right; '' for fewer than two values. */
export function sparkline(values: readonly number[], width: number, height: number, capacity: number): string {
  if (values.length < 2) return ''
  const low = Math.min(...values)
  const span = Math.max(...values) - low
  const step = width / (capacity - 1)
  const start = width - step * (values.length - 1)
  return values
    .map((value, k) => {
      // a flat line is in the middle
      const y = span === 0 ? height / 2 : height - 1.5 - ((value - low) / span) * (height - 3)
      return `${(start + k * step).toFixed(1)},${y.toFixed(1)}`
    })
    .join(' ')
}

interface Notice {
  readonly kind: string
  readonly text: string
  readonly bad: boolean
}

/** The part of a status that may contain problems. */
export interface News {
  readonly safe_mode?: string
  readonly config_problem?: string
  readonly needs_restart?: readonly string[]
  readonly attention?: readonly {
    readonly device_id: string
    readonly sensor_id?: string
    readonly status: string
    readonly reason?: string
  }[]
  readonly guard?: { readonly level: string; readonly reason?: string }
  readonly log?: { readonly state?: string; readonly reason?: string; readonly pending?: number }
  readonly disk?: { readonly reason: string; readonly in_ram: readonly string[]; readonly hint: string }
  readonly core?: { readonly problem?: string }
  readonly identity?: { readonly refused?: string }
}

/** The problems of a status that limit the gateway's work, the worst first; safe mode is shown above every view. */
export function notices(news: News): Notice[] {
  const { guard, config_problem, log, disk, core, attention = [], needs_restart = [] } = news
  const list: Notice[] = []
  const say = (kind: string, text: string, bad: boolean): void => void list.push({ kind, text, bad })
  if (log?.state === 'degraded')
    say(
      'log',
      `The log cannot be written (${log.reason ?? ''}): ${counted(log.pending ?? 0, 'record')} in RAM only`,
      true,
    )
  if (disk) say('disk', `In RAM only (${disk.reason}): ${disk.in_ram.join(', ')}; ${disk.hint}`, true)
  if (news.identity?.refused)
    say('id', `No id: the upstream answers ${news.identity.refused}; readings stay in the log`, true)
  if (config_problem) say('config', `The configuration file is ignored: ${config_problem}`, true)
  for (const { device_id, sensor_id, status, reason } of attention) {
    const what = sensor_id === undefined ? device_id : `${sensor_id} of ${device_id}`
    say(`${device_id} ${sensor_id ?? ''}`, `${what}: ${status}${reason === undefined ? '' : ` (${reason})`}`, true)
  }
  if (guard && guard.level !== 'normal')
    say('guard', `Reduced operation (${guard.level}): ${guard.reason ?? ''}`, false)
  if (core?.problem) say('core', core.problem, false)
  if (needs_restart.length > 0) say('restart', `Takes effect after a restart: ${needs_restart.join(', ')}`, false)
  return list
}
