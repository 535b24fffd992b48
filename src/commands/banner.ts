// The start message of a gateway for people: its name, its uplinks, its page.
import { join } from 'node:path'
import type { Gateway } from '../gateway/gateway'
import type { StartOverrides } from './context'
import { isLocal, loginUrl, openable, phoneCode } from './login'

/** `token`: the admin token, printed only this once; null: one exists already. */
export function banner(
  gateway: Gateway,
  role: 'run' | 'serve',
  url: string | null,
  token: string | null,
  { host, port, lan }: StartOverrides,
): string {
  const { identity, config, uplinks } = gateway
  const loopback = gateway.loopback.running
  const id = identity.assigned ? `id ${identity.assignedId}` : 'no id yet'
  const sameToken = config.config.web_user.auth_enabled ? ' (same token)' : ''
  const up = uplinks.list.map(uplink => `${uplink.name} (${uplink.medium})`).join(', ')
  const lines = [
    `os-node ${__VERSION__} ${role}: ${identity.deviceId}, ${id}`,
    role === 'run'
      ? `  forwards to  ${up || 'no upstream'}`
      : `  receives on  UDP ${host ?? '0.0.0.0'}:${port ?? 8080}`,
    ...(loopback
      ? [
          `               a local upstream, page http://127.0.0.1:${loopback.webPort}${sameToken}`,
          `               its data in ${loopback.dataDir}`,
        ]
      : []),
    `  keeps        ${join(config.dataDir, 'log')}`,
    `  look at      ${url === null ? 'os-node tui (the page is off: RESOURCES.service_plugins.web_user)' : openable(url)}`,
    ...(url !== null && lan ? lanLines(gateway, url, token) : []),
    ...(token === null ? [] : tokenLines(url === null ? null : loginUrl(url, token), token)),
    '  stop with    Ctrl-C',
  ]
  return lines.join('\n')
}

/** Lines for a phone on the same network. */
const lanLines = ({ config }: Gateway, url: string, token: string | null): string[] => [
  ...(isLocal(openable(url))
    ? ['               this machine has no network address yet; the page is reachable as soon as it has one']
    : []),
  ...(typeof config.config.web_user.tls === 'string'
    ? ['               the certificate is self-signed: a browser warns once']
    : []),
  ...(token === null
    ? ['  sign in with the token; os-node token --new creates another, with a link and a QR code']
    : []),
]

/** The token, once. */
const tokenLines = (link: string | null, token: string): string[] => [
  `  admin token  ${token}   (shown once; os-node token --new creates another)`,
  ...(link === null ? [] : [`  sign in with ${link}`, ...phoneCode(link)]),
]
