// Updates of the SD image requested by the page: the system writes the state of the slots to a file, and the gateway
// writes a request for an update to another. The gateway has no right to the card; src/update does the work as root.
// Errors: NO_SLOTS (no SD image), DATA_DIR etc. for a file that cannot be written.
import { readFileSync, writeFileSync } from 'node:fs'
import { atomicWrite } from '../lib/atomic'
import { OsError, orElse } from '../lib/errors'

export interface SystemUpdate {
  show(): Record<string, unknown>
  request(source: string): void
  /**
   * A user signed in: the system then removes the file with the first token. The log cannot be used for this: it may be
   * limited to warnings.
   */
  loggedIn(): void
}

/** `env` contains the file names; undefined without them. */
export function systemUpdate({
  OS_NODE_SLOTS: shown,
  OS_NODE_UPDATE_REQUEST: request,
  OS_NODE_LOGGED_IN: login,
}: NodeJS.ProcessEnv): SystemUpdate | undefined {
  if (!shown || !request) return undefined
  const show = (): Record<string, unknown> => {
    const slots = orElse(undefined, () => JSON.parse(readFileSync(shown, 'utf8')) as Record<string, unknown>)
    if (!slots)
      throw new OsError('NO_SLOTS', 'the system has not reported its slots yet', { hint: 'try again in a minute' })
    return slots
  }
  return {
    show,
    request(source) {
      if (show().progress) throw new OsError('E_UPDATE', 'an update is being installed')
      atomicWrite(request, source)
    },
    loggedIn: () => login && orElse(undefined, () => writeFileSync(login, '')),
  }
}
