// Values as people read them; the canonical value stays in the tooltip. Pure: no DOM, so the same file is tested in Node.

export interface Friendly {
  readonly value: string
  readonly unit: string
  /** value and UCUM unit as the gateway keeps them */
  readonly canonical: string
}

const KIB = 1024
const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
const PREFIXES: readonly (readonly [number, string])[] = [
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
  [1, ''],
  [1e-3, 'm'],
  [1e-6, 'µ'],
  [1e-9, 'n'],
  [1e-12, 'p'],
]
/** units that take a prefix, and how they are written */
const PREFIXED: Readonly<Record<string, string>> = {
  V: 'V',
  A: 'A',
  W: 'W',
  J: 'J',
  N: 'N',
  Pa: 'Pa',
  m: 'm',
  Hz: 'Hz',
  Ohm: 'Ω',
  F: 'F',
  H: 'H',
  S: 'S',
  T: 'T',
  Wb: 'Wb',
  C: 'C',
  mol: 'mol',
  'bit/s': 'bit/s',
}
const SUPERSCRIPT: Readonly<Record<string, string>> = { '2': '²', '3': '³', '-1': '⁻¹', '-2': '⁻²', '-3': '⁻³' }

/** About four digits, the decimals steady from one value to the next: 0.042, 3.142, 42.5, 1,013. */
export function number(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return '—'
  const size = Math.abs(value)
  if (Number.isInteger(value) && size < 1e7) return value.toLocaleString('en')
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2)
  const decimals = Math.min(3, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.max(size, 1)))))
  return value.toLocaleString('en', { minimumFractionDigits: decimals, maximumFractionDigits: decimals })
}

export function bytes(value: number): { value: string; unit: string } {
  let step = 0
  while (Math.abs(value) >= KIB && step < BINARY.length - 1) {
    value /= KIB
    step++
  }
  return { value: step === 0 ? number(Math.round(value)) : number(value, 3), unit: BINARY[step]! }
}

/** `1 packet`, `2,000 packets` */
export const counted = (count: number, name: string): string => `${number(count)} ${name}${count === 1 ? '' : 's'}`

/** `3 d 4 h`, `2 h 5 min`, `5 min 3 s`, `12 s` */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds))
  if (s >= 86_400) return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`
  if (s >= 60) return `${Math.floor(s / 60)} min ${s % 60} s`
  return `${s} s`
}

/** How long ago, in one unit; `now` and `then` in milliseconds. */
export function age(now: number, then: number): string {
  const s = Math.floor((now - then) / 1000)
  if (s < 2) return 'now'
  if (s < 60) return `${s} s ago`
  if (s < 3600) return `${Math.floor(s / 60)} min ago`
  if (s < 86_400) return `${Math.floor(s / 3600)} h ago`
  return `${Math.floor(s / 86_400)} d ago`
}

/** names of moments, which travel as UNIX milliseconds */
const MOMENT = /(^|_)(at|since|until|last_sync|t_raw)$/
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d[\d:.]*Z$/

/** A number under such a name, or an ISO text, as date and time of this place; undefined for anything else. */
export function momentText(name: string, value: unknown): string | undefined {
  const moment = typeof value === 'number' ? value > 1e12 && value < 4e12 && MOMENT.test(name) : ISO.test(String(value))
  return moment ? new Date(value as number | string).toLocaleString() : undefined
}

/** UCUM code → as it is printed: no braces, real powers, a middle dot. */
export const unitText = (unit: string): string =>
  unit === '1'
    ? ''
    : unit
        .replace(/\{(\w*)\}/g, '$1')
        .replace(/Ohm/g, 'Ω')
        .replace(/([a-zA-ZΩ])(-?[1-3])(?![\d])/g, (all, letter: string, power: string) =>
          SUPERSCRIPT[power] ? letter + SUPERSCRIPT[power] : all,
        )
        .replaceAll('.', '·')

function prefixed(value: number, symbol: string): { value: string; unit: string } {
  const size = Math.abs(value)
  const [factor, prefix] = PREFIXES.find(([f]) => size >= f) ?? (size === 0 ? PREFIXES[3]! : PREFIXES.at(-1)!)
  // division by a power of ten leaves a tail (0.3 / 1e-3 = 300.00000000000006)
  return { value: number(Number((value / factor).toPrecision(12))), unit: prefix + symbol }
}

function shown(value: number, unit: string): { value: string; unit: string } {
  if (unit === 'K') return { value: number(Number((value - 273.15).toFixed(1)), 3), unit: '°C' }
  if (unit === 'By') return bytes(value)
  if (unit === 'bit') return bytes(value / 8)
  if (unit === 'By/s') {
    const rate = bytes(value)
    return { value: rate.value, unit: `${rate.unit}/s` }
  }
  if (unit === 's') return value >= 120 ? { value: duration(value), unit: '' } : prefixed(value, 's')
  if (unit === 'rad') return { value: number((value * 180) / Math.PI), unit: '°' }
  if (unit === 'kg') return value >= 1 || value === 0 ? { value: number(value), unit } : prefixed(value * 1000, 'g')
  // air pressure, as weather reports have it
  if (unit === 'Pa' && value >= 80_000 && value <= 120_000) return { value: number(value / 100, 5), unit: 'hPa' }
  const symbol = PREFIXED[unit]
  return symbol ? prefixed(value, symbol) : { value: number(value), unit: unitText(unit) }
}

/** A canonical value (D2) in everyday form: K as °C, bytes as MiB, seconds as a duration, SI prefixes. */
export function friendly(value: number | null, unit: string): Friendly {
  if (value === null) return { value: '—', unit: '', canonical: 'no value' }
  return { ...shown(value, unit), canonical: `${value} ${unit}`.trim() }
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
      // a flat line runs in the middle
      const y = span === 0 ? height / 2 : height - 1.5 - ((value - low) / span) * (height - 3)
      return `${(start + k * step).toFixed(1)},${y.toFixed(1)}`
    })
    .join(' ')
}

export interface Notice {
  readonly kind: string
  readonly text: string
  readonly bad: boolean
}

/** The part of a status that may be bad news. */
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
}

/** What a status says that keeps the gateway from its whole work, the worst first; safe mode stands above every view. */
export function notices({ guard, config_problem, log, disk, attention = [], needs_restart = [] }: News): Notice[] {
  const list: Notice[] = []
  const say = (kind: string, text: string, bad: boolean): void => void list.push({ kind, text, bad })
  if (log?.state === 'degraded')
    say(
      'log',
      `The log cannot be written (${log.reason ?? ''}): ${counted(log.pending ?? 0, 'record')} in RAM only`,
      true,
    )
  if (disk) say('disk', `In RAM only (${disk.reason}): ${disk.in_ram.join(', ')}; ${disk.hint}`, true)
  if (config_problem) say('config', `The configuration file is ignored: ${config_problem}`, true)
  for (const { device_id, sensor_id, status, reason } of attention) {
    const what = sensor_id === undefined ? device_id : `${sensor_id} of ${device_id}`
    say(`${device_id} ${sensor_id ?? ''}`, `${what}: ${status}${reason === undefined ? '' : ` (${reason})`}`, true)
  }
  if (guard && guard.level !== 'normal')
    say('guard', `Reduced operation (${guard.level}): ${guard.reason ?? ''}`, false)
  if (needs_restart.length > 0) say('restart', `Takes effect after a restart: ${needs_restart.join(', ')}`, false)
  return list
}

/** One scale for a whole line of values, that of its greatest: what to multiply by, what to add, and the unit then. */
export function friendlyScale(
  values: readonly (number | null)[],
  unit: string,
): { of(value: number): number; unit: string } {
  const greatest = values.reduce<number>((top, value) => Math.max(top, Math.abs(value ?? 0)), 0)
  const scaled = (factor: number, name: string) => ({ of: (value: number) => value * factor, unit: name })
  if (unit === 'K') return { of: value => value - 273.15, unit: '°C' }
  if (unit === 'rad') return scaled(180 / Math.PI, '°')
  if (unit === 'By' || unit === 'bit' || unit === 'By/s') {
    const base = unit === 'bit' ? 1 / 8 : 1
    const step = Math.min(BINARY.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, greatest * base)) / 10)))
    return scaled(base / KIB ** step, BINARY[step]! + (unit === 'By/s' ? '/s' : ''))
  }
  if (unit === 'Pa' && greatest >= 80_000 && greatest <= 120_000) return scaled(1 / 100, 'hPa')
  if (unit === 's') {
    if (greatest >= 2 * 86_400) return scaled(1 / 86_400, 'd')
    if (greatest >= 2 * 3600) return scaled(1 / 3600, 'h')
    if (greatest >= 120) return scaled(1 / 60, 'min')
  }
  const symbol = unit === 's' ? 's' : PREFIXED[unit]
  if (!symbol || greatest === 0) return scaled(1, symbol ?? unitText(unit))
  const [factor, prefix] = PREFIXES.find(([f]) => greatest >= f) ?? PREFIXES.at(-1)!
  return scaled(1 / factor, prefix + symbol)
}
