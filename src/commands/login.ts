// The way from a terminal to the page: the token once as text, as a link, and as a QR code for a phone. The token stands
// behind the # of the link: browsers send that part to nobody, and no log of a server has it.
import type { networkInterfaces } from 'node:os'
import { renderUnicodeCompact } from 'uqr'
import type { ConfigStore } from '../config'
import { interfaces as ownInterfaces } from '../links/network'

type Interfaces = ReturnType<typeof networkInterfaces>

/** An address that others reach this machine by: the first IPv4 that is not the loopback. */
function ownAddress(interfaces: Interfaces): string | undefined {
  const all = Object.values(interfaces).flatMap(list => list ?? [])
  return all.find(({ family, internal, address }) => family === 'IPv4' && !internal && !address.startsWith('169.254.'))
    ?.address
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
  if (everywhere) url.hostname = ownAddress(interfaces) ?? '127.0.0.1'
  return url.origin
}

/** The link that logs in. */
export const loginUrl = (base: string, token: string, interfaces?: Interfaces): string =>
  `${openable(base, interfaces)}/#/?token=${encodeURIComponent(token)}`

/** The QR code of a link for a phone, as lines; none where the link names this machine to itself only. */
export const phoneCode = (link: string): string[] =>
  LOOPBACK.test(new URL(link).hostname) ? [] : ['', qrCode(link), '']

const LOOPBACK = /^(127\.|\[::1\]$|localhost$)/

/** A QR code in half blocks, light where the terminal has ink: right side up on a dark terminal, and read on a light one too. */
export const qrCode = (text: string): string => renderUnicodeCompact(text, { border: 2 })
