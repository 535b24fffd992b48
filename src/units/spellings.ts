// Common spellings outside UCUM: words (`celsius`, `kilopascal`, `metres`), signs (`°C`, `µ`, `m²`, `Ω`), trade
// abbreviations (`psi`, `rpm`, `mph`) and levels (`dBm`). UCUM has priority, so a UCUM code always means what UCUM
// says, except for the few in FIRST and LEVELS. Lower case is accepted only if it is unambiguous: `hpa` is hPa, but
// `mpa` (milli or mega?) stays unknown.
import { parseUnit, power, pure, type Quantity, takesPrefix } from './grammar'

/** UCUM reads these as femtotonne, milliphot, kilophot, picohenry and kilobels, but people who type them always mean this. */
const FIRST: Readonly<Record<string, string>> = {
  ft: '[ft_i]',
  mph: '[mi_i]/h',
  kph: 'km/h',
  pH: '[pH]',
  kB: 'kBy',
  MB: 'MBy',
  GB: 'GBy',
  TB: 'TBy',
  KiB: 'KiBy',
  MiB: 'MiBy',
  GiB: 'GiBy',
  TiB: 'TiBy',
}

/** Levels that UCUM does not have. They are not scaled. */
const LEVELS = 'dBm dBi dBc dBd dBu dBV dBA dBC dBFS dBmV dBuV dBW'.split(' ')

/** Case-sensitive: another case could mean another prefix. */
const EXACT = table(
  'mWh=mW.h MWh=MW.h MVA=MV.A mVA=mV.A Mvar=MV.A MVAr=MV.A Mpa=MPa Mhz=MHz Mbps=Mbit/s Mw=MW Nm=N.m kNm=kN.m',
)

/**
 * Lower-case word → UCUM. Nouns are also accepted in the plural and, if the code accepts prefixes, with the words kilo,
 * milli …
 */
const NOUNS = `metre=m meter=m second=s sec=s gram=g gramme=g kelvin=K celsius=Cel centigrade=Cel fahrenheit=[degF]
rankine=[degR] reaumur=[degRe] mole=mol candela=cd ampere=A amp=A volt=V ohm=Ohm watt=W joule=J newton=N pascal=Pa hertz=Hz
coulomb=C farad=F siemens=S weber=Wb tesla=T henry=H lumen=lm lux=lx radian=rad steradian=sr degree=deg becquerel=Bq
gray=Gy sievert=Sv litre=L liter=L tonne=t bit=bit byte=By baud=Bd bar=bar gauss=G poise=P stokes=St calorie=cal
electronvolt=eV decibel=dB bel=B neper=Np minute=min hour=h day=d week=wk month=mo year=a inch=[in_i] foot=[ft_i]
yard=[yd_i] mile=[mi_i] knot=[kn_i] pound=[lb_av] ounce=[oz_av] gallon=[gal_us] atmosphere=atm torr=Torr acre=[acr_us]
hectare=har percent=% permille=[ppth] turn=circ revolution=circ`

const WORDS: ReadonlyMap<string, string> = table(`${NOUNS}
hr=h hrs=h mins=min secs=s yr=a ann=a degc=Cel deg_c=Cel degreec=Cel degree_celsius=Cel degreecelsius=Cel cel=Cel degf=[degF]
deg_f=[degF] degree_fahrenheit=[degF] degreefahrenheit=[degF] degre=[degRe] degr=[degR] arcmin=' arcsec='' pct=%
%rh=% rh=% relative_humidity=% humidity=% ppm=[ppm] ppb=[ppb] ppth=[ppth] psi=[psi] psig=[psi] psia=[psi]
feet=[ft_i] in=[in_i] inches=[in_i] yd=[yd_i]
mi=[mi_i] nmi=[nmi_i] nautical_mile=[nmi_i] lb=[lb_av] lbs=[lb_av] oz=[oz_av] lbf=[lbf_av] kgf=kgf gal=[gal_us] gpm=[gal_us]/min
lpm=L/min slpm=L/min ccm=cm3 cc=cm3 cfm=[cft_i]/min cmh=m3/h fps=[ft_i]/s mps=m/s kmh=km/h kn=[kn_i] kts=[kn_i]
rpm=Hz/60 rps=Hz bpm=Hz/60 cpm=Hz/60 mmhg=mm[Hg] inhg=[in_i'Hg] cmh2o=cm[H2O] mmh2o=mm[H2O] inh2o=[in_i'H2O] inwc=[in_i'H2O]
bps=bit/s kbps=kbit/s gbps=Gbit/s va=V.A kva=kV.A var=V.A kvar=kV.A wh=W.h kwh=kW.h gwh=GW.h ah=A.h
mah=mA.h btu=[Btu_IT] btuh=[Btu_IT]/h ang=Ao angstrom=Ao uv_index={uv_index} uvi={uv_index} ntu={ntu} count={particles}
counts={particles} pcs={particles} pieces={particles} particles={particles} bd=Bd ha=har lm=lm lx=lx hz=Hz khz=kHz
ghz=GHz pa=Pa kpa=kPa hpa=hPa gpa=GPa mbar=mbar v=V kv=kV w=W kw=kW gw=GW j=J kj=kJ n=N kohm=kOhm ohm=Ohm dbspl=dB[SPL]
kg=kg kgs=kg micron=um percentage=% watt_hour=W.h watt_hours=W.h kilowatt_hour=kW.h kilowatt_hours=kW.h
ratio=1 fraction=1 unitless=1 dimensionless=1 none=1 number=1 osm=osm eq=eq`)

/** Units with their own conversion in the symbol table of the protocol (Appendix B), which UCUM does not have. */
const SCALED: Readonly<Record<string, readonly [number, string]>> = {
  hp: [735.49875, 'W'],
  horsepower: [735.49875, 'W'],
  gau: [3.335641e-10, 'A'],
  cp: [0.981, 'cd'],
  hk: [0.903, 'cd'],
}

/** Device operations of the protocol: names, not measurements. Stored as annotations. */
const OPERATION =
  /^(?:cmd[a-z]?|mode[a-z]|pow\.(?:on|off)|set\.val|get\.(?:val|st)|rst|mv\.(?:up|dn|lt|rt|fw|bk|to|by)|stp(?:\.e)?|rot\.c[wc])$/i

const PREFIX_WORDS: readonly (readonly [string, string])[] = [
  ...table(`tera=T giga=G mega=M kilo=k hecto=h deca=da deka=da deci=d centi=c milli=m micro=u nano=n pico=p femto=f
kibi=Ki mebi=Mi gibi=Gi tebi=Ti`),
]
const NOUN_CODES = table(NOUNS)

function table(text: string): Map<string, string> {
  return new Map(
    text.split(/\s+/).map((entry): [string, string] => {
      const at = entry.indexOf('=')
      return [entry.slice(0, at), entry.slice(at + 1)]
    }),
  )
}

/** Looks up `word`, with or without a plural ending, in `map`. */
function singular(map: ReadonlyMap<string, string>, word: string): string | undefined {
  return map.get(word) ?? (word.endsWith('s') ? map.get(word.slice(0, -1)) : undefined)
}

function wordCode(word: string): string | undefined {
  const plain = singular(WORDS, word)
  if (plain !== undefined) return plain
  for (const [name, prefix] of PREFIX_WORDS) {
    if (!word.startsWith(name)) continue
    const code = singular(NOUN_CODES, word.slice(name.length))
    if (code !== undefined && takesPrefix(code)) return prefix + code
  }
  return undefined
}

const level = (code: string): Quantity => ({ ...pure(1), dims: new Map([[code, 1]]) })

/** The speller of the grammar, for one symbol. */
function spell(symbol: string, unknown: boolean): Quantity | null {
  // `dBd` would be a tenth of a baud
  if (LEVELS.includes(symbol)) return level(symbol)
  if (!unknown) {
    const code = Object.hasOwn(FIRST, symbol) ? FIRST[symbol] : undefined
    return code === undefined ? null : parseUnit(code)
  }
  const exact = EXACT.get(symbol)
  if (exact !== undefined) return parseUnit(exact)
  const lower = symbol.toLowerCase()
  const scaled = Object.hasOwn(SCALED, lower) ? SCALED[lower] : undefined
  if (scaled) return { ...power(parseUnit(scaled[1])!, 1), factor: scaled[0] }
  const code = wordCode(lower)
  if (code !== undefined) return parseUnit(code)
  // dBc and dBC differ only by case
  const named = lower === 'dbc' ? undefined : LEVELS.find(name => name.toLowerCase() === lower)
  return named ? level(named) : null
}

/** Signs to ASCII: µ, Ω, °C, superscripts, middle dots, `^2`, ` per `. */
function plain(text: string): string {
  return text
    .replace(/º|˚/g, '°')
    .normalize('NFKC')
    .replace(/[μµ]/g, 'u')
    .replace(/[ΩΩ]/g, 'Ohm')
    .replace(/[−–]/g, '-')
    .replace(/[·⋅•×∙]/g, '.')
    .replace(/°\s*C/gi, 'Cel')
    .replace(/°\s*F/gi, '[degF]')
    .replace(/°\s*K/gi, 'K')
    .replace(/°/g, 'deg')
    .replace(/‰/g, '[ppth]')
    .replace(/\s+per\s+/gi, '/')
    .replace(/dB\(([A-Za-z]+)\)/g, 'dB$1')
    .replace(/(?<!10)(?:\^|\*\*)(?=[+-]?\d)/g, '')
    .replace(/(?<!10)\*/g, '.')
    .replace(/\s*([./()])\s*/g, '$1')
    .trim()
}

/** The quantity of any text that a user or a peer uses as a unit, or null if it is unknown. */
export function understand(spelling: string): Quantity | null {
  if (spelling.length > 200) return null
  const text = spelling.trim()
  const strict = parseUnit(text, spell)
  if (strict) return strict
  if (OPERATION.test(text)) return { ...pure(1), kept: `{${text}}` }
  const ascii = plain(text)
  // words separated by a space or a hyphen: `nautical mile`, `relative humidity`, `degree Celsius`, `% RH`
  const joined = ascii.replace(/\s+(?=rh$)/i, '').replace(/[\s-]+(?=[a-z])/gi, '_')
  const bare = ascii.replace(/\s+/g, '')
  return parseUnit(ascii, spell) ?? parseUnit(joined, spell) ?? parseUnit(bare, spell)
}
