// Settings of a card before its first start: lines of os-node.conf, appended to the file on the start partition of the image
// (FAT16, one root directory; created by src/build/image/disk.mjs).
// Errors: BAD_ARGUMENT, E_FLASH (an unexpected start partition, or one without room).
import { OsError } from '../lib/errors'
import { uplinkOf } from './uplink'

export interface CardSettings {
  readonly hostname?: string
  readonly wifi?: { readonly ssid: string; readonly password: string }
  readonly country?: string
  /** public keys, one per line */
  readonly keys?: string
  /** the upstream's address, see uplinkOf */
  readonly uplink?: string
}

const KEY = /^(ssh-(ed25519|rsa)|ecdsa-sha2-[a-z0-9-]+) [A-Za-z0-9+/=]+( .*)?$/

/** Follows the rules of the script that reads the file (src/build/image/root/usr/lib/os-node/setup). Throws BAD_ARGUMENT. */
export function settingLines({ hostname, wifi, country, keys, uplink }: CardSettings): string {
  const lines: string[] = []
  const add = (name: string, value: string | undefined, good: RegExp, rule: string): void => {
    if (value === undefined) return
    if (!good.test(value)) throw new OsError('BAD_ARGUMENT', `${name}: ${rule}`)
    lines.push(`${name}=${value}\n`)
  }
  add('hostname', hostname, /^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/, 'letters, digits and hyphens, 63 at most')
  if (wifi && Buffer.byteLength(wifi.ssid) > 32) throw new OsError('BAD_ARGUMENT', 'wifi_ssid: 32 bytes at most')
  add('wifi_ssid', wifi?.ssid, /^[^\0-\x1f\x7f]+$/, 'a name without control characters')
  add('wifi_password', wifi?.password || undefined, /^([ -~]{8,63}|[0-9a-fA-F]{64})$/, '8 to 63 characters of ASCII')
  add('wifi_country', country, /^[A-Z]{2}$/, 'two capital letters, as DE')
  for (const key of keys?.split(/\r?\n/) ?? [])
    if (key && !key.startsWith('#')) add('ssh_key', key, KEY, 'a public key in one line, as in id_ed25519.pub')
  if (uplink !== undefined) {
    uplinkOf(uplink)
    lines.push(`uplink=${uplink}\n`)
  }
  return lines.join('')
}

const ENTRY = 32

/** Appends `text` to os-node.conf on the start partition `fat`. Throws E_FLASH. */
export function appendToConf(fat: Buffer, text: string): void {
  const wrong = (message: string): OsError =>
    new OsError('E_FLASH', `the start partition of the image ${message}`, { hint: 'build the image again' })
  const sector = fat.readUInt16LE(11)
  const cluster = sector * fat[13]!
  const fatBytes = fat.readUInt16LE(22) * sector
  const fats = Array.from({ length: fat[16]! }, (_, at) => fat.readUInt16LE(14) * sector + at * fatBytes)
  const rootAt = fat.readUInt16LE(14) * sector + fats.length * fatBytes
  const dataAt = rootAt + fat.readUInt16LE(17) * ENTRY
  if (sector !== 512 || !cluster || !fatBytes || fats.length === 0 || dataAt >= fat.length) throw wrong('is not FAT16')
  const last = Math.min(fatBytes / 2, Math.floor((fat.length - dataAt) / cluster) + 2) - 1
  let entry = rootAt
  while (!/^OS-NOD~\dCON$/.test(fat.toString('latin1', entry, entry + 11)))
    if ((entry += ENTRY) >= dataAt) throw wrong('has no os-node.conf')
  const next = (number: number): number => fat.readUInt16LE(fats[0]! + number * 2)
  const link = (number: number, to: number): void => {
    for (const at of fats) fat.writeUInt16LE(to, at + number * 2)
  }
  const chain: number[] = []
  for (let at = fat.readUInt16LE(entry + 26); at >= 2 && at <= last && chain.length <= last; at = next(at))
    chain.push(at)
  const size = fat.readUInt32LE(entry + 28)
  if (chain.length === 0 || chain.length * cluster < size) throw wrong('has a damaged os-node.conf')
  const place = (number: number): number => dataAt + (number - 2) * cluster
  const old = Buffer.concat(chain.map(number => fat.subarray(place(number), place(number) + cluster))).subarray(0, size)
  const content = Buffer.concat([old, Buffer.from(`\n# by os-node flash\n${text}`)])
  let free = 2
  while (chain.length * cluster < content.length) {
    while (free <= last && next(free) !== 0) free++
    if (free > last) throw wrong('is full')
    link(chain.at(-1)!, free)
    link(free, 0xffff)
    chain.push(free)
  }
  for (const [at, number] of chain.entries()) content.copy(fat, place(number), at * cluster, (at + 1) * cluster)
  fat.writeUInt32LE(content.length, entry + 28)
}
