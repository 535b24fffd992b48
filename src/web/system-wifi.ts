// The Wi-Fi of the SD image, set on the page: the gateway writes a request to a file; the system, which may write to the
// start partition, changes os-node.conf and restarts the board, or writes the reason to another file.
// Errors: those of a file that cannot be written.
import { atomicWrite } from '../lib/atomic'
import { orElse } from '../lib/errors'
import { realFiles } from '../lib/files'

export interface Wifi {
  readonly ssid: string
  /** without one the Wi-Fi is open */
  readonly password?: string | undefined
  readonly country?: string | undefined
}

export interface SystemWifi {
  /** why the last one was not stored */
  problem(): string | undefined
  request(wifi: Wifi): void
}

/** `env` contains the file names; undefined without them. */
export function systemWifi({
  OS_NODE_WIFI_REQUEST: request,
  OS_NODE_WIFI_PROBLEM: problem,
}: NodeJS.ProcessEnv): SystemWifi | undefined {
  if (!request || !problem) return undefined
  return {
    problem: () => orElse(undefined, () => realFiles.read(problem).toString().trim()),
    request({ ssid, password, country }) {
      const lines = Object.entries({ ssid, password, country })
      atomicWrite(request, lines.map(([name, value]) => (value ? `wifi_${name}=${value}\n` : '')).join(''))
    },
  }
}
