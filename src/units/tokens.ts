// The unit tokens of the wire: the unit of the values for every name of the symbol table and every attribute name
// (Appendix B). For class names and attributes it is the unit to which the reference converts. Two classes mix several
// dimensions and have no unit: electromagnetism (2) and energypower (3).
import { UNIT_TOKENS } from '../wire/symbols'

const table = (text: string): Map<string, string> =>
  new Map(text.split(/\s+/).map(row => row.split('=') as [string, string]))

const UNITS = table(`mol=mol eq=eq osm=osm count={particles} a=A bi=Bi gau=gau v=V ohm=Ohm f=F w=W j=J cal=cal_IT hp=hp
hz=Hz rpm=rpm deg/s=deg/s rad/s=rad/s %=% bit=bit by=By bd=Bd m=m in=[in_i] ft=[ft_i] nmi=[nmi_i] au=AU ang=Ao cd=cd cp=cp
hk=hk g=g lb=[lb_av] oz=[oz_av] t=t u=u pa=Pa bar=bar psi=[psi] atm=atm mm[hg]=mm[Hg] k=K cel=Cel degf=[degF]
degre=[degRe] s=s min=min h=h d=d wk=wk ann=a`)

const CLASSES = table(`amountofsubstance=mol operations={operations} electriccurrent=A electromagnetism= energypower=
frequency=Hz humidity=% informatics=bit length=m luminousintensity=cd mass=kg pressure=Pa temperature=K time=s`)

/** Physical attribute name, in the reference standardizer's spelling, `_` for spaces → the unit of its values. */
export const ATTRIBUTE_UNITS: ReadonlyMap<string, string> =
  table(`amount_of_substance=mol electric_current=A voltage=V resistance=Ohm capacitance=F power=W energy=J frequency=Hz
humidity=% data=bit bandwidth=Bd length=m luminous_intensity=cd mass=kg pressure=Pa temperature=K time=s
operation={operation} power_control={power_control} parameter_write={parameter_write} parameter_read={parameter_read}
status_query={status_query} device_control={device_control} motion_control={motion_control} safety_control={safety_control}
rotation_control={rotation_control} user_defined={user_defined} mode_select={mode_select}`)

/** Operations are names, stored as annotations: `cmda` is `{cmdA}`, as in Appendix B. */
const operation = (name: string): string =>
  `{${name.replace(/^(cmd|mode)([a-z])$/, (_, head, tail) => head + tail.toUpperCase())}}`

/** lower-case name of a unit symbol → UCUM or common spelling */
export const SYMBOL_UNITS: ReadonlyMap<string, string> = UNITS

/** token → UCUM or common spelling; '' if the class has no unit. `900` is Pa, not atm (X1). */
export const TOKEN_UNITS: ReadonlyMap<string, string> = new Map(
  [...UNIT_TOKENS]
    .filter(([name]) => name !== 'atm')
    .map(([name, token]): [string, string] => [token, UNITS.get(name) ?? CLASSES.get(name) ?? operation(name)]),
)
