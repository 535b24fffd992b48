// flash: writes the SD image to a card on a person's own computer. os-node-update.js next to the program does the work.
// Errors: E_FLASH, BAD_ARGUMENT, USAGE.
import { readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { OsError, orElse } from '../../lib/errors'
import { inUpdateFile } from '../update-file'
import type { Verb } from '../verb'

const text = (value: unknown): string | undefined => (value === undefined ? undefined : String(value))

/** NAME:PASSWORD; the first colon ends the name. */
function wifiOf(value: string | undefined): { ssid: string; password: string } | undefined {
  if (value === undefined) return undefined
  const at = value.indexOf(':')
  return { ssid: value.slice(0, at), password: value.slice(at + 1) }
}

function keysOf(path: string | undefined): string | undefined {
  if (path === undefined) return undefined
  const keys = orElse(undefined, () => readFileSync(path, 'utf8'))
  if (keys === undefined) throw new OsError('BAD_ARGUMENT', `--key: ${path} cannot be read`)
  return keys
}

export const flash: Verb<object> = {
  name: 'flash',
  summary: 'write the SD image to a card, with its first settings',
  description:
    'Without DEVICE it lists the removable disks; no other disk is written. It prompts before it erases the card, and verifies what it wrote. Only root can write a card.',
  examples: [
    'os-node flash',
    'os-node flash /dev/sdb --image os-node-rpi-4-0.1.0.img.xz',
    'os-node flash /dev/sdb --board rpi-4 --hostname greenhouse --wifi Home --wifi-country DE --key ~/.ssh/id_ed25519.pub',
  ],
  options: {
    device: { type: 'string', value: 'DEVICE', help: 'the card; without it, cards are listed' },
    image: { type: 'string', value: 'FILE', help: 'image, .img or .img.xz' },
    board: { type: 'string', value: 'NAME', help: 'instead of --image: the newest of this board in dist/' },
    hostname: { type: 'string', value: 'NAME', help: 'name in the network' },
    wifi: { type: 'string', value: 'SSID[:PASSWORD]', help: 'Wi-Fi; without PASSWORD it prompts for one' },
    'wifi-country': { type: 'string', value: 'CC', help: 'country of the Wi-Fi, for example DE' },
    key: { type: 'string', value: 'FILE', help: 'public keys for the remote shell' },
    uplink: { type: 'string', value: 'URL', help: 'where to send, for example udp://192.0.2.10:8080' },
    yes: { type: 'boolean', help: 'erase without confirmation' },
  },
  operands: ['device'],
  where: 'local',
  async prepare(options, _read, secret) {
    const { wifi } = options
    if (typeof wifi !== 'string' || wifi.includes(':')) return options
    return { ...options, wifi: `${wifi}:${await secret(`password of ${wifi}`)}` }
  },
  async run(context, options) {
    return inUpdateFile('E_FLASH', async file => {
      const { device } = options
      if (device === undefined) {
        const { text: table, ...value } = file.showDisks()
        return { value, text: table }
      }
      const board = text(options.board)
      if ((board === undefined) === (options.image === undefined))
        throw new OsError('USAGE', 'give --image FILE or --board NAME')
      const beside = dirname(realpathSync(process.argv[1] ?? '.'))
      const value = await file.flash({
        device: String(device),
        image: text(options.image) ?? file.imageOf(board!, [join(process.cwd(), 'dist'), process.cwd(), beside]),
        yes: options.yes === true,
        hostname: text(options.hostname),
        wifi: wifiOf(text(options.wifi)),
        country: text(options['wifi-country']),
        keys: keysOf(text(options.key)),
        uplink: text(options.uplink),
        print: line => context.print({ text: line }, line),
      })
      return { value, text: '' }
    })
  },
}
