// Updates of the SD image, as the page asks for them: what the slots are lies in a file that the system writes, and a request for an
// update in one that the gateway writes. The gateway has no right to the card; src/update does the work as root.
// Errors: NO_SLOTS (no SD image), DATA_DIR and its like where a file cannot be written.
import { readFileSync, writeFileSync } from 'node:fs'
import { atomicWrite } from '../lib/atomic'
import { OsError, orElse } from '../lib/errors'

export interface SystemUpdate {
  show(): Record<string, unknown>
  request(source: string): void
  /** A user logged in: the system removes the file that shows the first token. The log would not do: it may be switched to warnings. */
  loggedIn(): void
}

/** `env` names the files; undefined without them. */
export function systemUpdate({
  OS_NODE_SLOTS: shown,
  OS_NODE_UPDATE_REQUEST: request,
  OS_NODE_LOGGED_IN: login,
}: NodeJS.ProcessEnv): SystemUpdate | undefined {
  if (!shown || !request) return undefined
  const show = (): Record<string, unknown> => {
    const slots = orElse(undefined, () => JSON.parse(readFileSync(shown, 'utf8')) as Record<string, unknown>)
    if (!slots)
      throw new OsError('NO_SLOTS', 'the system did not say what its slots are', { hint: 'try again in a minute' })
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
