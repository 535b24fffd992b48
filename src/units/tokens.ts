// What the unit tokens of the wire mean (PROTOCOL Appendix A and B): name, token, and the UCUM expression a value with
// that token is in. Class tokens (one character) and attribute names stand for the unit the reference converts to.
// Two classes mix several dimensions and mean nothing by themselves: electromagnetism (2) and energypower (3).

/** name as the symbol table holds it = token = UCUM or everyday spelling */
const SYMBOLS = `mol=000=mol eq=001=eq osm=002=osm count=003=count a=100=A bi=101=Bi gau=102=gau v=200=V ohm=201=Ohm f=202=F
w=300=W j=301=J cal=302=cal_IT hp=303=hp hz=400=Hz rpm=401=rpm deg/s=402=deg/s rad/s=403=rad/s %=C00=% bit=500=bit
by=501=By bd=502=Bd m=600=m in=601=[in_i] ft=602=[ft_i] nmi=603=[nmi_i] au=604=AU ang=605=Ao cd=700=cd cp=701=cp hk=702=hk
g=800=g lb=801=[lb_av] oz=802=[oz_av] t=803=t u=804=u atm=900=Pa bar=901=bar psi=902=[psi] pa=900=Pa mm[hg]=903=mm[Hg]
k=A00=K cel=A01=Cel degf=A02=[degF] degre=A03=[degRe] s=B00=s min=B01=min h=B02=h d=B03=d wk=B04=wk ann=B05=a`

const CLASSES = `amountofsubstance=0=mol operations=D={operations} electriccurrent=1=A electromagnetism=2= energypower=3=
frequency=4=Hz humidity=C=% informatics=5=bit length=6=m luminousintensity=7=cd mass=8=kg pressure=9=Pa temperature=A=K
time=B=s`

/** The operations D00 to D46, in the order of their tokens (hexadecimal). */
const OPERATIONS = [
  ...'cmd pow.on pow.off set.val get.val get.st rst mv.up mv.dn mv.lt mv.rt mv.fw mv.bk stp stp.e mv.to mv.by'.split(
    ' ',
  ),
  ...'rot.cw rot.cc'.split(' '),
  ...Array.from('ABCDEFGHIJKLMNOPQRSTUVWXYZ', letter => `cmd${letter}`),
  ...Array.from('ABCDEFGHIJKLMNOPQRSTUVWXYZ', letter => `mode${letter}`),
]

/** Physical attribute name, as the reference's standardizer writes it, `_` for spaces → the unit its values are in. */
const ATTRIBUTES = `amount_of_substance=mol electric_current=A voltage=V resistance=Ohm capacitance=F power=W energy=J
frequency=Hz humidity=% data=bit bandwidth=Bd length=m luminous_intensity=cd mass=kg pressure=Pa temperature=K time=s
operation={operation} power_control={power_control} parameter_write={parameter_write} parameter_read={parameter_read}
status_query={status_query} device_control={device_control} motion_control={motion_control} safety_control={safety_control}
rotation_control={rotation_control} user_defined={user_defined} mode_select={mode_select}`

const rows = (text: string): string[][] => text.split(/\s+/).map(row => row.split('='))

/** token → UCUM; '' where the class has no unit of its own */
export const TOKEN_UNITS: ReadonlyMap<string, string> = new Map([
  ...rows(SYMBOLS).map(([, token, unit]): [string, string] => [token!, unit!]),
  ...rows(CLASSES).map(([, token, unit]): [string, string] => [token!, unit!]),
  ...OPERATIONS.map((name, k): [string, string] => [`D${k.toString(16).toUpperCase().padStart(2, '0')}`, `{${name}}`]),
])

/** lower-case symbol name or attribute name → UCUM; names of symbols only count behind a coefficient's prefix */
export const SYMBOL_NAMES: ReadonlyMap<string, string> = new Map(
  rows(SYMBOLS).map(([name, , unit]): [string, string] => [name!, unit!]),
)

export const ATTRIBUTE_UNITS: ReadonlyMap<string, string> = new Map(
  rows(ATTRIBUTES).map(([name, unit]): [string, string] => [name!, unit!]),
)
