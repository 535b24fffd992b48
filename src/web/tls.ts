// Encryption of the HTTP service (web_user.tls, decision 0050): off, a self-signed certificate, or the configured files.
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { ConfigStore } from '../config'
import { type Files, realFiles } from '../lib/files'
import { tlsMaterial } from '../media/tls/settings'
import { keptPair, type Pair } from './certificate'

/**
 * The server's key pair; null: no encryption. Read at each start of the server. `lan`: always encrypt (run --lan), for
 * these addresses too. Throws TLS_FILE for configured files.
 */
export function webTls(
  config: ConfigStore,
  warn: (text: string) => void = () => undefined,
  { files = realFiles, lan }: { files?: Files; lan?: readonly string[] | undefined } = {},
): Pair | null {
  const setting = config.get<'off' | 'self_signed' | { cert: string; key: string }>('web_user.tls')
  if (setting === 'off' && !lan) return null
  if (typeof setting === 'string') {
    const { host } = config.config.RESOURCES.service_plugins.web_user
    const own = ['0.0.0.0', '::', ''].includes(host) ? [] : [host]
    const here = [hostname(), `${hostname()}.local`, 'localhost', '127.0.0.1', '::1']
    const names = new Set([...here, ...own, ...config.get<string[]>('web_user.allowed_hosts'), ...(lan ?? [])])
    return keptPair(join(config.dataDir, 'web_tls.pem'), [...names], files, warn)
  }
  const { cert, key } = tlsMaterial({ ...setting, insecure: false, min_version: 'TLSv1.2' })
  return { cert: cert!, key: key! }
}
