// The start message of a gateway for people: its name, its uplinks, its page.
import { join } from 'node:path'
import type { ConfigStore } from '../config'
import type { GatewaySummary } from '../gateway/api'
import type { StartOverrides } from './context'
import { isLocal, loginUrl, openable, phoneCode } from './login'

/** `token`: the admin token, printed only this once; null: one exists already. */
export function banner(
  { deviceId, assignedId, uplinks, localUpstream }: GatewaySummary,
  config: ConfigStore,
  role: 'run' | 'serve',
  url: string | null,
  token: string | null,
  { host, port, lan }: StartOverrides,
): string {
  const id = assignedId === null ? 'no id yet' : `id ${assignedId}`
  const sameToken = config.config.web_user.auth_enabled ? ' (same token)' : ''
  const up = uplinks.map(({ name, medium }) => `${name} (${medium})`).join(', ')
  const lines = [
    `os-node ${__VERSION__} ${role}: ${deviceId}, ${id}`,
    role === 'run'
      ? `  forwards to  ${up || 'no upstream'}`
      : `  receives on  UDP ${host ?? '0.0.0.0'}:${port ?? 8080}`,
    ...(localUpstream
      ? [
          `               a local upstream, page http://127.0.0.1:${localUpstream.webPort}${sameToken}`,
          `               its data in ${localUpstream.dataDir}`,
        ]
      : []),
    `  keeps        ${join(config.dataDir, 'log')}`,
    `  look at      ${url === null ? 'os-node tui (the page is off: RESOURCES.service_plugins.web_user)' : openable(url)}`,
    ...(url !== null && lan ? lanLines(config, url, token) : []),
    ...(token === null ? [] : tokenLines(url === null ? null : loginUrl(url, token), token)),
    '  stop with    Ctrl-C',
  ]
  return lines.join('\n')
}

/** Lines for a phone on the same network. */
const lanLines = (config: ConfigStore, url: string, token: string | null): string[] => [
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
