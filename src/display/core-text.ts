// The built-in sections as text for a terminal: most important values first, counters only if they are not zero. A
// section whose data has another shape (a library node has less data) is shown in the general form.
import { isAssigned } from '../lib/assigned-id'
import { systemClock } from '../lib/clock'
import { duration, readingText } from '../units/display'
import { cellText, rowsText, textOf } from './formats'
import { logText } from './log-text'
import { type Dict, isDict, type Plain } from './plain'

const dict = (value: Plain | undefined): Dict => (isDict(value) ? value : {})
const rows = (value: Plain | undefined): Dict[] => (Array.isArray(value) ? value.filter(isDict) : [])
const onOff = (value: Plain | undefined): string => (value === true ? 'on' : 'off')

/** Joins the parts with empty lines in between; skips empty parts. */
const parts = (...texts: (string | readonly string[])[]): string =>
  texts
    .map(text => (typeof text === 'string' ? text : text.join('\n')))
    .filter(text => text !== '')
    .join('\n\n')

/** `name: a 1, b 2` of the values that are not zero; '' if all are. */
function counted(name: string, value: Plain | undefined): string {
  const counts = Object.entries(dict(value)).filter(([, n]) => n !== 0 && n !== null && typeof n !== 'object')
  return counts.length === 0 ? '' : `${name}: ${counts.map(([what, n]) => `${what} ${cellText(n)}`).join(', ')}`
}

/** The log as in `status`, and why it is degraded. */
function logLine(log: Dict): string {
  if (typeof log.records !== 'number') return ''
  const text = logText(log as unknown as Parameters<typeof logText>[0], systemClock.wall())
  return log.state === 'degraded' ? `${text}; degraded: ${cellText(log.reason)}` : text
}

function identityText(data: Dict): string {
  const { time, uptime_s, assigned_id, ...others } = data
  const { quality, offset_ms } = dict(time)
  return textOf({
    ...others,
    assigned_id: isAssigned(assigned_id) ? assigned_id : 'none yet (os-node ensure-id requests one)',
    ...(typeof uptime_s === 'number' && { uptime: duration(uptime_s) }),
    ...(isDict(time) && { time: `${quality}, ${offset_ms} ms off the system clock` }),
  })
}

function transportText(data: Dict): string {
  if (!Array.isArray(data.items)) return textOf(data)
  const media = rows(data.items).map(({ name, layer, enabled, driver, default_port, links }) => ({
    medium: name ?? null,
    layer: layer ?? null,
    switch: onOff(enabled),
    driver: driver === true ? 'yes' : 'no',
    port: default_port === 'serial port name' ? 'serial' : (default_port ?? null),
    links: rows(links)
      .map(link => `${link.name} ${link.state}`)
      .join(', '),
  }))
  const links = rows(data.links).map(({ name, ...others }) => ({ link: name ?? null, ...others }))
  return parts(links.length > 0 ? rowsText(links) : '', rowsText(media))
}

function pipelineText(data: Dict): string {
  const { readings, uplinks, forwarding, intake, received, dropped, log, ...settings } = data
  const own = rows(readings).every(({ medium }) => medium === 'local')
  const newest = rows(readings).map(({ device, sensor, value, unit, status, at, medium }) => ({
    device: device ?? null,
    sensor: sensor ?? null,
    value: typeof value === 'number' ? readingText(value, String(unit)) : null,
    status: status ?? null,
    at: typeof at === 'string' ? new Date(at).toTimeString().slice(0, 8) : null,
    ...(!own && { by: medium ?? null }),
  }))
  const texts = Object.entries(dict(uplinks)).map(([uplink, value]) => {
    const {
      carrying,
      delivery = null,
      backlog = null,
      acked = null,
      resent = null,
      round_trip_ms = null,
      secure = null,
    } = dict(value)
    return {
      uplink,
      state: carrying === true ? 'active' : 'idle',
      delivery,
      backlog,
      acked,
      resent,
      ms: round_trip_ms,
      session: secure,
    }
  })
  const { reason } = dict(forwarding)
  return parts(
    newest.length > 0 ? rowsText(newest) : '',
    texts.length > 0 ? rowsText(texts) : '',
    typeof reason === 'string' ? reason : '',
    [counted('intake', intake), counted('received', received), counted('dropped', dropped), logLine(dict(log))].filter(
      Boolean,
    ),
    textOf(settings),
  )
}

function pluginsText(data: Dict): string {
  const { mount_index, runtime_index, config_index } = data
  if (!Array.isArray(mount_index) || mount_index.length === 0) return textOf(data)
  const running = new Set(Array.isArray(runtime_index) ? runtime_index : [])
  return rowsText(
    mount_index.map(name => {
      const { enabled, auto_start, ...settings } = dict(dict(config_index)[String(name)])
      return {
        plugin: name,
        state: enabled === false ? 'off' : running.has(name) ? 'loaded' : 'mounted',
        starts: auto_start === true ? 'with the gateway' : 'by hand',
        settings: Object.entries(settings)
          .filter(([key, value]) => key !== 'mode' && value !== '')
          .map(([key, value]) => `${key} ${cellText(value)}`)
          .join(', '),
      }
    }),
  ).join('\n')
}

const TEXTS: Readonly<Record<string, (data: Dict) => string>> = {
  identity: identityText,
  transport: transportText,
  plugins: pluginsText,
  pipeline: pipelineText,
}

/** The text of a built-in section. */
export const coreText = (part: string, data: Plain): string =>
  isDict(data) ? (TEXTS[part] ?? textOf)(data) : textOf(data)
