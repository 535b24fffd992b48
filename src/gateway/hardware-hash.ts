// The hardware an identity was created on: hashes of the board's serial number (device tree, DMI) and of its first MAC
// address, stored in Config.json with the ids. A copied SD card or Config.json makes two devices with one id, which corrupt
// each other's packets. Each start on other hardware logs a warning and continues.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConfigStore } from '../config/config-store'
import { asOsError, orElse } from '../lib/errors'
import type { Logger } from '../lib/logger'

const KEY = 'hardware_id'
/** placeholders that firmware returns if no serial number was ever written */
const BLANK =
  /^(0*|0?123456789.*|none|unknown|default string|to be filled.*|not (specified|applicable|available)|system serial number|n\/a|[.-]+)$/i

/** `kind:hash` of the identifiers this machine offers, most reliable first. Some are readable by root only. */
export function hardwareMarks(root = '/'): string[] {
  const read = (path: string): string =>
    orElse('', () => readFileSync(join(root, path), 'utf8').replaceAll('\0', '').trim())
  const known = (text: string): boolean => !BLANK.test(text)
  const dmi = ['product_serial', 'board_serial', 'product_uuid'].map(name => read(`sys/class/dmi/id/${name}`))
  const net = join(root, 'sys/class/net')
  const macs = (existsSync(net) ? readdirSync(net).sort() : [])
    .filter(name => existsSync(join(net, name, 'device')))
    .map(name => read(`sys/class/net/${name}/address`).toLowerCase())
    // ignore addresses that software generated: they do not identify the board
    .filter(mac => /^[0-9a-f][048c]:/.test(mac) && mac !== '00:00:00:00:00:00')
  const all = {
    'device-tree': read('proc/device-tree/serial-number'),
    dmi: dmi.find(known) ?? '',
    mac: macs[0] ?? '',
  }
  const hash = (text: string): string => createHash('sha256').update(`os-node ${text}`).digest('hex').slice(0, 16)
  return Object.entries(all)
    .filter(([, text]) => known(text))
    .map(([kind, text]) => `${kind}:${hash(text)}`)
}

const kindOf = (mark: string): string => mark.slice(0, mark.indexOf(':'))

/** Stores the marks of this hardware, or warns if the stored ones belong to other hardware. False for other hardware. */
export function checkHardware(
  config: ConfigStore,
  logger: Logger,
  marks: readonly string[] = hardwareMarks(),
): boolean {
  const kept = String(config.get(KEY) ?? '')
    .split(' ')
    .filter(mark => mark.includes(':'))
  const same = marks.some(mark => kept.includes(mark))
  // root can read more identifiers than others: compare only marks of the same kind
  if (!same && marks.some(mark => kept.some(old => kindOf(old) === kindOf(mark)))) {
    const { device_id, assigned_id } = config.config
    logger.warn(
      `${config.path} was made on other hardware. If that is in use too, both send as ${device_id} (id ${assigned_id}) and ` +
        'corrupt each other’s packets: set device_id to "" and assigned_id to 4294967295 in this one. ' +
        `If this hardware replaces it: os-node config-set --key ${KEY} --value ""`,
    )
    return false
  }
  const others = kept.filter(old => !marks.some(mark => kindOf(mark) === kindOf(old)))
  const now = [...marks, ...others].join(' ')
  if (now !== kept.join(' ') && marks.length > 0) {
    try {
      config.set(KEY, now)
    } catch (error) {
      logger.warn(`${KEY} could not be saved in ${config.path}: ${asOsError(error).message}`)
    }
  }
  return true
}
