// Display units: one table from canonical units (decision 0005) to those that people read, shared by the page, the terminal UI,
// tables of commands, CSV files and plots. Stored and sent values stay canonical. A unit that is not in the table is
// unchanged. Pure and without the UCUM tables, because the page in the browser uses this file too.

/** value in `unit` = value × factor + offset */
export interface Scale {
  readonly unit: string
  readonly factor: number
  readonly offset: number
}

/** [least size in the canonical unit, unit, factor]; the greatest first */
type Step = readonly [least: number, unit: string, factor: number]

const PREFIXES: readonly (readonly [power: number, prefix: string])[] = [
  [9, 'G'],
  [6, 'M'],
  [3, 'k'],
  [0, ''],
  [-3, 'm'],
  [-6, 'µ'],
  [-9, 'n'],
  [-12, 'p'],
]
/** Steps of a symbol with SI prefixes; `base`: size of the symbol itself in the canonical unit. */
const si = (symbol: string, base = 1, greatest = 9): Step[] =>
  PREFIXES.filter(([power]) => power <= greatest).map(([power, prefix]) => [
    base * 10 ** power,
    prefix + symbol,
    10 ** -power / base,
  ])
/** Bytes, `perByte` canonical units each. */
const data = (perByte: number, per = ''): Step[] =>
  ['PiB', 'TiB', 'GiB', 'MiB', 'KiB', 'B'].map((unit, k) => {
    const size = perByte * 1024 ** (5 - k)
    return [unit === 'B' ? 0 : size, unit + per, 1 / size]
  })
/** any size except zero, which is shown in the unit of exports */
const TINY = Number.MIN_VALUE
const one = (unit: string, factor = 1): Step[] => [[0, unit, factor]]

/** Steps of each canonical unit with different display units, and the fixed one of exports, where a column has one unit. */
const TABLE: Readonly<Record<string, { readonly fixed: string; readonly steps: readonly Step[] }>> = Object.fromEntries(
  (
    [
      ['K', '°C', one('°C')],
      ['rad', '°', one('°', 180 / Math.PI)],
      ['rad/s', '°/s', one('°/s', 180 / Math.PI)],
      // 300 to 1200 hPa is air pressure
      ['Pa', 'hPa', [...si('Pa').slice(0, 2), [120_000, 'kPa', 1e-3], [30_000, 'hPa', 1e-2], ...si('Pa').slice(2)]],
      // rain falls in mm/h
      [
        'm/s',
        'km/h',
        [
          [1e-4, 'km/h', 3.6],
          [TINY, 'mm/h', 3.6e6],
        ],
      ],
      [
        'm3',
        'm³',
        [
          [1, 'm³', 1],
          [1e-3, 'L', 1e3],
          [TINY, 'mL', 1e6],
        ],
      ],
      [
        'm3/s',
        'm³/h',
        [
          [1 / 3600, 'm³/h', 3600],
          [TINY, 'L/min', 6e4],
        ],
      ],
      ['kg', 'kg', [[1, 'kg', 1], ...si('g', 1e-3, 0)]],
      ['kg/s', 'kg/h', one('kg/h', 3600)],
      ['kg/m3', 'g/m³', [[1, 'kg/m³', 1], ...si('g/m³', 1e-3, 0)]],
      ['kg/s3', 'W/m²', one('W/m²')],
      ['kg/s3/K', 'W/(m²·K)', one('W/(m²·K)')],
      [
        's3.A2/kg/m3',
        'µS/cm',
        [
          [1, 'mS/cm', 10],
          [TINY, 'µS/cm', 1e4],
        ],
      ],
      ['s', 's', [[172_800, 'd', 1 / 86_400], [7200, 'h', 1 / 3600], [120, 'min', 1 / 60], ...si('s', 1, 0)]],
      // charge of batteries, energy of meters; smaller values in J may be a torque
      ['C', 'C', [[3600, 'Ah', 1 / 3600], ...si('C', 1, 3)]],
      ['J', 'J', [[3.6e6, 'kWh', 1 / 3.6e6], ...si('J', 1, 3)]],
      ['bit', 'MiB', data(8)],
      ['By', 'MiB', data(1)],
      ['By/s', 'MiB/s', data(1, '/s')],
      ['bit/s', 'kbit/s', si('bit/s', 1, 9).slice(0, 4)],
      ['Ohm', 'Ω', si('Ω')],
      ...['V', 'A', 'W', 'N', 'm', 'Hz', 'F', 'H', 'S', 'T', 'Wb', 'mol'].map(
        symbol => [symbol, symbol, si(symbol)] as const,
      ),
    ] as const
  ).map(([unit, fixed, steps]) => [unit, { fixed, steps }]),
)

const NAMES = new Set('kg g m s A K mol cd rad sr bit Pa V Ohm W J N lm lx C F S Wb T H Hz %'.split(' '))
const SUPERSCRIPT: Readonly<Record<string, string>> = { '-': '⁻', ...Object.fromEntries([...'⁰¹²³⁴⁵⁶⁷⁸⁹'].entries()) }

/** A unit as printed: without braces, with superscript powers and a middle dot; a text that is not UCUM is unchanged. */
export function unitText(unit: string): string {
  if (unit === '1') return ''
  const parts = unit.split(/([./])/).map(part => {
    if (part === '.' || part === '/') return part === '.' ? '·' : part
    const [, inner] = /^[{[](\w+)[\]}]$/.exec(part) ?? []
    if (inner !== undefined) return inner
    const [, name = '', power = ''] = /^([A-Za-z%]+)(-?\d?)$/.exec(part) ?? []
    return NAMES.has(name) ? name.replace('Ohm', 'Ω') + [...power].map(char => SUPERSCRIPT[char]).join('') : undefined
  })
  return parts.includes(undefined) ? unit : parts.join('')
}

/** The scale of values up to `greatest` in a canonical unit; without it the scale of exports, independent of the values. */
export function scaleOf(unit: string, greatest?: number): Scale {
  const { fixed, steps } = Object.hasOwn(TABLE, unit) ? TABLE[unit]! : { fixed: '', steps: one(unitText(unit)) }
  // the last step also covers all smaller values
  const small = greatest === 0 ? undefined : steps.at(-1)
  const fits = greatest === undefined ? undefined : (steps.find(([least]) => Math.abs(greatest) >= least) ?? small)
  const [, name, factor] = fits ?? steps.find(([, name]) => name === fixed) ?? steps[0]!
  return { unit: name, factor, offset: unit === 'K' ? -273.15 : 0 }
}

/** doubles are exact to 15 digits, and after some arithmetic to 12 */
const SOUND = 12
/** more digits than this come from a division, or from a 32-bit float, which has 7 */
const CARRIED = 10
const SINGLE = 7

/** Rounded to `count` digits of the greatest number it was computed from. Never -0. */
function rounded(value: number, count: number, size: number): number {
  if (!Number.isFinite(value) || Number.isSafeInteger(value)) return value + 0
  const decimals = count - 1 - Math.floor(Math.log10(Math.max(size, Math.abs(value))))
  return Math.abs(decimals) > 100 || Math.abs(value) >= 1e21
    ? Number(value.toPrecision(count))
    : Number(value.toFixed(Math.max(0, decimals))) + 0
}

/**
 * The number with its significant digits: 292.73 for 292.72999999999996, 21.45 for the float 21.450000762939453,
 * 0.3333333 for a third. `size`: the greatest number it was computed from.
 */
export function carried(value: number, size = 0): number {
  const sound = rounded(value, SOUND, size)
  return sound.toExponential().replace(/e.*|\D/g, '').length <= CARRIED ? sound : rounded(sound, SINGLE, size)
}

/** A number of any magnitude as text for people. */
export const numberText = (value: number, size = 0): string =>
  Number.isFinite(value) ? String(carried(value, size)) : '—'

/** A value on a scale, without rounding errors of the arithmetic. */
export const scaled = (value: number, { factor, offset }: Scale): number =>
  factor === 1 && offset === 0 ? value : rounded(value * factor + offset, SOUND, Math.abs(offset))

/** Value and unit for people; `scale` if several values share one. Seconds become `2 h 5 min`. */
export function valueText(value: number, unit: string, scale?: Scale): { value: string; unit: string } {
  if (unit === 's' && !scale && Math.abs(value) >= 120 && Number.isFinite(value))
    return { value: (value < 0 ? '-' : '') + duration(Math.abs(value)), unit: '' }
  const by = scale ?? scaleOf(unit, value)
  return { value: numberText(scaled(value, by), Math.abs(by.offset)), unit: by.unit }
}

/** The same as one text; '-' without a value. */
export function readingText(value: number | null, unit: string): string {
  if (value === null) return '-'
  const text = valueText(value, unit)
  return `${text.value} ${text.unit}`.trim()
}

/** `1.5 GiB`, three digits */
export function bytes(count: number): { value: string; unit: string } {
  const scale = scaleOf('By', count)
  return {
    value: String(Number((count * scale.factor).toPrecision(count * scale.factor < 100 ? 3 : 4))),
    unit: scale.unit,
  }
}

/** The same as one text. */
export const bytesText = (count: number): string => Object.values(bytes(count)).join(' ')

/** `3 d 4 h`, `2 h 5 min`, `5 min 3 s`, `12 s` */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds))
  if (s >= 86_400) return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`
  if (s >= 60) return `${Math.floor(s / 60)} min ${s % 60} s`
  return `${s} s`
}

/** names of points in time, which are UNIX milliseconds */
const MOMENT = /(^|_)(at|since|until|last_sync|t_raw)$/

/** Whether a named value is a point in time. */
export const isMoment = (name: string, value: unknown): value is number =>
  typeof value === 'number' && value > 1e12 && value < 4e12 && MOMENT.test(name)

/** Values of `units` in the API and in exports. */
export const UNIT_CHOICES = ['canonical', 'display'] as const

/**
 * Value and unit for an export in display units: one fixed unit per canonical one, so that the unit of a column never
 * changes.
 */
export function exported<V extends number | null>(value: V, unit: string): { value: V; unit: string } {
  const scale = scaleOf(unit)
  return { value: (value === null ? null : scaled(value, scale)) as V, unit: scale.unit }
}

/** The dict form of a fact for people: `s1_v` is the text of value and unit, and so on. */
export function readingsAsText(dict: object): Record<string, unknown> {
  const out: Record<string, unknown> = { ...dict }
  for (let n = 1; typeof out[`s${n}_u`] === 'string'; n++) {
    const value = out[`s${n}_v`]
    out[`s${n}_v`] = readingText(typeof value === 'number' ? value : null, String(out[`s${n}_u`]))
    delete out[`s${n}_u`]
  }
  return out
}

/** The dict form of a fact in the units of exports. */
export function exportedDict<D extends object>(dict: D): D {
  const out = { ...dict } as Record<string, unknown>
  for (let n = 1; typeof out[`s${n}_u`] === 'string'; n++) {
    const value = out[`s${n}_v`]
    const shown = exported(typeof value === 'number' ? value : null, String(out[`s${n}_u`]))
    out[`s${n}_u`] = shown.unit
    if (typeof value === 'number') out[`s${n}_v`] = shown.value
  }
  return out as D
}
