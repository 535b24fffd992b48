// The way from a terminal to the page: the token once as text, as a link, and as a QR code for a phone. The token stands
// behind the # of the link: browsers do not send that part, and no log of a server has it.
import { readFileSync } from 'node:fs'
import type { networkInterfaces } from 'node:os'
import type { ConfigStore } from '../config'
import { interfaces as ownInterfaces } from '../links/network'

type Interfaces = ReturnType<typeof networkInterfaces>

/** networks of containers, virtual machines and tunnels: no phone is in them */
const VIRTUAL = /^(?:docker|br-|veth|virbr|vmnet|vnet|lxc|lxd|cni|podman|tun|tap|wg|tailscale|zt)/

/** The interfaces of the default routes, as /proc/net/route has them; none where there is no such file. */
function routedInterfaces(table = '/proc/net/route'): string[] {
  try {
    const routes = readFileSync(table, 'utf8').split('\n').slice(1)
    return routes.map(line => line.split('\t')).flatMap(([name, to]) => (name && to === '00000000' ? [name] : []))
  } catch {
    return []
  }
}

/** An address that others reach this machine by: IPv4, of a default route where there is one. */
export function lanAddress(interfaces: Interfaces = ownInterfaces(), routed = routedInterfaces()): string | undefined {
  const names = Object.keys(interfaces).filter(name => !VIRTUAL.test(name))
  const order = [...routed.filter(name => names.includes(name)), ...names]
  return order
    .flatMap(name => interfaces[name] ?? [])
    .find(({ family, internal, address }) => family === 'IPv4' && !internal && !address.startsWith('169.254.'))?.address
}

/** Where the page is by the configuration alone. */
export function configuredUrl({ config }: ConfigStore): string {
  const { host, port } = config.RESOURCES.service_plugins.web_user
  const scheme = config.web_user.tls === 'off' ? 'http' : 'https'
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** The page as a person opens it: one that listens everywhere is named by an address that a phone can use. */
export function openable(base: string, interfaces: Interfaces = ownInterfaces()): string {
  const url = new URL(base)
  const everywhere = url.hostname === '0.0.0.0' || url.hostname === '[::]'
  if (everywhere) url.hostname = lanAddress(interfaces) ?? '127.0.0.1'
  return url.origin
}

/** The link that logs in. */
export const loginUrl = (base: string, token: string, interfaces?: Interfaces): string =>
  `${openable(base, interfaces)}/#/?token=${encodeURIComponent(token)}`

/** The QR code of a link for a phone, as lines; none where the link names this machine to itself only. */
export const phoneCode = (link: string): string[] => (isLocal(link) ? [] : ['', qrCode(link), ''])

/** True for a link that this machine alone can open. */
export const isLocal = (link: string): boolean => LOOPBACK.test(new URL(link).hostname)

const LOOPBACK = /^(127\.|\[::1\]$|localhost$)/

/** A QR code in half blocks, light where the terminal has ink: right side up on a dark terminal, and read on a light one too. */
export const qrCode = (text: string): string => drawing().renderUnicodeCompact(text, { border: 2 })

/** Most starts draw no code: the package is unpacked for the first. */
const drawing = (): typeof import('uqr') => require('uqr')
