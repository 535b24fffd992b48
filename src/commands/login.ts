// Signing in from a terminal: the token once as text, as a link, and as a QR code for a phone. The token is after the # of
// the link: browsers do not send that part, so no server logs it.
import { readFileSync } from 'node:fs'
import type { networkInterfaces } from 'node:os'
import type { ConfigStore } from '../config'
import { interfaces as ownInterfaces } from '../links/network'

type Interfaces = ReturnType<typeof networkInterfaces>

/** networks of containers, virtual machines and tunnels: no phone is on them */
const VIRTUAL = /^(?:docker|br-|veth|virbr|vmnet|vnet|lxc|lxd|cni|podman|tun|tap|wg|tailscale|zt)/

/** The interfaces of the default routes from /proc/net/route; none if the file does not exist. */
function routedInterfaces(table = '/proc/net/route'): string[] {
  try {
    const routes = readFileSync(table, 'utf8').split('\n').slice(1)
    return routes.map(line => line.split('\t')).flatMap(([name, to]) => (name && to === '00000000' ? [name] : []))
  } catch {
    return []
  }
}

/** An address by which others reach this machine: IPv4, of a default route if there is one. */
export function lanAddress(interfaces: Interfaces = ownInterfaces(), routed = routedInterfaces()): string | undefined {
  const names = Object.keys(interfaces).filter(name => !VIRTUAL.test(name))
  const order = [...routed.filter(name => names.includes(name)), ...names]
  return order
    .flatMap(name => interfaces[name] ?? [])
    .find(({ family, internal, address }) => family === 'IPv4' && !internal && !address.startsWith('169.254.'))?.address
}

/** The page's URL according to the configuration alone. */
export function configuredUrl({ config }: ConfigStore): string {
  const { host, port } = config.RESOURCES.service_plugins.web_user
  const scheme = config.web_user.tls === 'off' ? 'http' : 'https'
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** The page's URL for a person: if the page listens on all addresses, one that a phone can use. */
export function openable(base: string, interfaces: Interfaces = ownInterfaces()): string {
  const url = new URL(base)
  const everywhere = url.hostname === '0.0.0.0' || url.hostname === '[::]'
  if (everywhere) url.hostname = lanAddress(interfaces) ?? '127.0.0.1'
  return url.origin
}

/** The link that signs in. */
export const loginUrl = (base: string, token: string, interfaces?: Interfaces): string =>
  `${openable(base, interfaces)}/#/?token=${encodeURIComponent(token)}`

/** The QR code of a link for a phone, as lines; none for a link that works only on this machine. */
export const phoneCode = (link: string): string[] => (isLocal(link) ? [] : ['', qrCode(link), ''])

/** True for a link that works only on this machine. */
export const isLocal = (link: string): boolean => LOOPBACK.test(new URL(link).hostname)

const LOOPBACK = /^(127\.|\[::1\]$|localhost$)/

/** A QR code in half blocks, drawn light on dark: correct on a dark terminal, and readable on a light one too. */
export const qrCode = (text: string): string => drawing().renderUnicodeCompact(text, { border: 2 })

/** Loaded on first use, because most starts draw no code. */
const drawing = (): typeof import('uqr') => require('uqr')
