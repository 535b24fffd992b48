// An uplink as one address, as a user writes it into os-node.conf or passes it to `os-node flash`: udp://192.0.2.10:8080,
// mqtts://gw7:secret@broker.example. The first start of the image writes it into the configuration, and so does each later
// start after os-node.conf was changed; in between the uplink can be changed on the page.
// Errors: BAD_ARGUMENT, CONFIG_INVALID.
import { appendFileSync, chmodSync, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { asOsError, OsError, orElse } from '../lib/errors'

export const UPLINK_RULE = 'udp, tcp, quic, mqtt or mqtts with host and port, as udp://192.168.1.10:8080'
/** the same is in src/build/image/root/usr/lib/os-node/setup */
const FORM =
  /^(?:(?:udp|tcp|quic):\/\/|mqtts?:\/\/(?:[^\s:@/"\\]+(?::[^\s@/"\\]+)?@)?)(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?\/?$/
/** the name of the uplink in the configuration */
const NAME = 'card'

const FLAGS: Readonly<Record<string, readonly [group: string, flag: string]>> = {
  UDP: ['transport_status', 'udp'],
  TCP: ['transport_status', 'tcp'],
  QUIC: ['transport_status', 'quic'],
  MQTT: ['application_status', 'mqtt'],
}

interface Uplink {
  readonly name: string
  readonly medium: string
  readonly [key: string]: unknown
}

/** The uplink of an address. Throws BAD_ARGUMENT. */
export function uplinkOf(address: string): Uplink {
  const url = FORM.test(address) ? orElse(undefined, () => new URL(address)) : undefined
  if (!url || url.port === '0') throw new OsError('BAD_ARGUMENT', `uplink: ${UPLINK_RULE}`)
  const scheme = url.protocol.slice(0, -1)
  const secure = scheme === 'mqtts'
  const [username, password] = [url.username, url.password].map(text => orElse(text, () => decodeURIComponent(text)))
  return {
    name: NAME,
    medium: (secure ? 'mqtt' : scheme).toUpperCase(),
    host: url.hostname.replace(/^\[|\]$/g, ''),
    ...(url.port && { port: Number(url.port) }),
    ...(secure && { tls: true }),
    ...(username && { username }),
    ...(password && { password }),
  }
}

type Group = Record<string, unknown>
const groupIn = (parent: Group, name: string): Group => {
  const value = parent[name]
  if (typeof value !== 'object' || value === null || Array.isArray(value)) parent[name] = {}
  return parent[name] as Group
}

/**
 * The text of Config.json with this uplink first, replacing an earlier one of os-node.conf, and its medium enabled. Throws
 * BAD_ARGUMENT, CONFIG_INVALID.
 */
export function withUplink(text: string, address: string): string {
  const uplink = uplinkOf(address)
  const config = orElse(undefined, () => JSON.parse(text) as Group)
  if (!config)
    throw new OsError('CONFIG_INVALID', 'uplink: ignored, since Config.json has comments or is damaged', {
      hint: 'add the uplink on the page, under Settings',
    })
  const gateway = groupIn(config, 'gateway')
  const others = (Array.isArray(gateway.uplinks) ? gateway.uplinks : []).filter(
    other => (other as Uplink | null)?.name !== NAME,
  )
  gateway.uplinks = [uplink, ...others]
  const [group, flag] = FLAGS[uplink.medium]!
  groupIn(groupIn(config, 'RESOURCES'), group)[flag] = true
  return `${JSON.stringify(config, null, 2)}\n`
}

const PLACES = {
  wanted: '/run/os-node-uplink',
  config: '/etc/os-node/Config.json',
  /** the uplink applied last */
  taken: '/data/uplink',
  /** shown below the token of a first start */
  report: '/run/os-node-setup.txt',
}

/** Runs `change` with the rights of the owner of the folder `of`, who could have put links there. */
function asOwner(of: string, change: () => void): void {
  const { uid, gid } = statSync(of)
  if (process.getuid?.() !== 0 || uid === 0) {
    change()
    return
  }
  process.setgroups!([gid])
  process.setegid!(gid)
  process.seteuid!(uid)
  try {
    change()
  } finally {
    process.seteuid!(0)
    process.setegid!(0)
  }
}

/**
 * Writes the uplink of os-node.conf into the configuration. Errors are shown with the other refused lines. `places`: for
 * tests.
 */
export function takeUplink(places = PLACES): void {
  try {
    const address = readFileSync(places.wanted, 'utf8')
    asOwner(dirname(places.config), () => {
      const { mode } = statSync(places.config)
      atomicWrite(places.config, withUplink(readFileSync(places.config, 'utf8'), address))
      chmodSync(places.config, mode)
    })
    atomicWrite(places.taken, address)
    chmodSync(places.taken, 0o600)
  } catch (error) {
    appendFileSync(places.report, `os-node.conf: ${asOsError(error).message}\n`)
    throw error
  }
}
