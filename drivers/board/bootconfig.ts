// The firmware's config.txt: which of its lines apply to this board. Pure. A line below a section header applies when
// the section is for this board; [all] ends the filters, [none] matches no board. Conditions that only the firmware can
// evaluate (a display, a serial number, a pin) count as not met: at worst the advice is to add a line that exists
// already.

export interface BootConfig {
  /** without comments and spaces; one parameter per line: dtparam=spi=on */
  readonly lines: readonly string[]
  /** a line appended to the file would apply */
  readonly open: boolean
}

const MODEL = /^(pi\d|cm\d)/
/** aliases of the same parameter */
const SAME: Readonly<Record<string, string>> = { i2c: 'i2c_arm', i2c1: 'i2c_arm' }
const ON = ['', 'on', 'yes', 'true', '1']

/** `sections`: names of the model sections for this board: pi4, cm4. */
export function bootConfigOf(text: string, sections: readonly string[]): BootConfig {
  const lines: string[] = []
  // sections of one kind replace each other; those of different kinds must all be met
  let model = true
  let other = true
  for (const raw of text.split('\n')) {
    const line = raw.replace(/#.*/, '').replaceAll(/\s+/g, '')
    const section = /^\[(.*)\]$/.exec(line)?.[1]?.toLowerCase()
    if (section === 'all') model = other = true
    else if (section !== undefined && MODEL.test(section)) model = sections.includes(section)
    else if (section !== undefined) other = false
    else if (line !== '' && model && other) lines.push(...settings(line))
  }
  return { lines, open: model && other }
}

/** dtparam=i2c1,spi=on → dtparam=i2c_arm=on and dtparam=spi=on */
function settings(line: string): string[] {
  if (!line.startsWith('dtparam=')) return [line]
  return line
    .slice('dtparam='.length)
    .split(',')
    .map(parameter => {
      const [name = '', value = ''] = parameter.split('=')
      return `dtparam=${SAME[name] ?? name}=${ON.includes(value) ? 'on' : value}`
    })
}
