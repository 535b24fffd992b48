// Units of dialect `attribute` as data: the physical attribute of a unit and the conversion to that attribute's
// standard unit. A row is `key[=ucum_code] factor [offset]`; a leading `*` means that it accepts prefixes.

export interface AttributeConversion {
  /** physical attribute, which this dialect sends as the unit */
  readonly attribute: string
  /** standard value = value × factor + offset */
  readonly factor: number
  readonly offset: number
  readonly prefixes: boolean
}

const letters = (head: string): string => Array.from('ABCDEFGHIJKLMNOPQRSTUVWXYZ', c => head + c).join(' 1, ') + ' 1'

const TABLE: readonly (readonly [attribute: string, units: string])[] = [
  ['amount of substance', '*mol 1, *eq 1, *osm 1, count={particles} 1.6605390666e-24'],
  ['operation', 'cmd 1'],
  ['power_control', 'pow.on 1, pow.off 1'],
  ['parameter_write', 'set.val 1'],
  ['parameter_read', 'get.val 1'],
  ['status_query', 'get.st 1'],
  ['device_control', 'rst 1'],
  ['motion_control', 'mv.up 1, mv.dn 1, mv.lt 1, mv.rt 1, mv.fw 1, mv.bk 1, stp 1, mv.to 1, mv.by 1'],
  ['safety_control', 'stp.e 1'],
  ['rotation_control', 'rot.cw 1, rot.cc 1'],
  ['user_defined', letters('cmd')],
  ['mode_select', letters('mode')],
  ['electric current', '*A 1, *Bi 10, Gau 3.335641e-10'],
  ['voltage', '*V 1'],
  ['resistance', '*Ohm 1'],
  ['capacitance', '*F 1'],
  ['power', '*W 1, hp=[hp_m] 735.49875'],
  ['energy', '*J 1, *cal=cal_IT 4.1868'],
  ['frequency', '*Hz 1, rpm=min-1 0.016666666666666666, deg/s 0.002777777777777778, rad/s 0.15915494309189535'],
  ['humidity', '% 1'],
  ['data', '*bit 1, *By 8'],
  ['bandwidth', '*Bd 1'],
  ['length', '*m 1, in=[in_i] 0.0254, ft=[ft_i] 0.3048, nmi=[nmi_i] 1852, AU 149597870700, ang=Ang 1e-10'],
  ['luminous intensity', '*cd 1, cp=[cp_i] 0.981, hk=[hk_i] 0.903'],
  ['mass', '*g 0.001, lb=[lb_i] 0.45359237, oz=[oz_i] 0.028349523, *t 1000, u 1.660539066e-27'],
  ['pressure', '*Pa 1, *bar 100000, psi=[psi] 6894.75729, atm 101325, mm[Hg] 133.322387'],
  ['temperature', '*K 1, Cel 1 273.15, degF=[degF] 0.5555555555555556 255.37222222222223, degRe=[degRe] 1.25 273.15'],
  ['time', '*s 1, min 60, h 3600, d 86400, wk 604800, *ann=year 31557600'],
]

const byKey = new Map<string, AttributeConversion>()
const byCode = new Map<string, AttributeConversion>()
for (const [attribute, units] of TABLE)
  for (const row of units.split(', ')) {
    const [name, factor, offset = '0'] = row.split(' ') as [string, string, string?]
    const [key, code = key] = name.replace('*', '').split('=') as [string, string?]
    const conversion = { attribute, factor: Number(factor), offset: Number(offset), prefixes: name.startsWith('*') }
    byKey.set(key, conversion)
    byCode.set(code, conversion)
  }

/** `celsius` refers to a name that does not exist, so it is unknown, as in the reference. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ['cel', 'Cel'],
  ['hour', 'h'],
  ['celsius', 'degree_celsius'],
])

/** The conversion of a unit without prefix and power: by key, by the key in lower case, by UCUM code. */
export function atomConversion(text: string): AttributeConversion | undefined {
  const trimmed = text.trim()
  const name = ALIASES.get(trimmed.toLowerCase()) ?? trimmed
  return byKey.get(name) ?? byKey.get(name.toLowerCase()) ?? byCode.get(name)
}

const LONG = 'da=1e1 Ki=1024 Mi=1048576 Gi=1073741824 Ti=1099511627776'
const SHORT =
  'Q=1e30 R=1e27 Y=1e24 Z=1e21 E=1e18 P=1e15 T=1e12 G=1e9 M=1e6 k=1e3 h=1e2 d=0.1 c=0.01 m=0.001 u=1e-6 n=1e-9 p=1e-12 ' +
  'f=1e-15 a=1e-18 z=1e-21 y=1e-24 r=1e-27 q=1e-30'

/** In the order of matching: the longest texts first. */
export const ATTRIBUTE_PREFIXES: readonly (readonly [prefix: string, factor: number])[] = `${LONG} ${SHORT}`
  .split(' ')
  .map(row => row.split('=') as [string, string])
  .map(([prefix, factor]) => [prefix, Number(factor)])
