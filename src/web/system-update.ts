// Updates of the SD image requested by the page: the system writes the state of the slots to a file, and the gateway
// writes a request for an update to another, and an uploaded update to a third. The gateway has no right to the card;
// src/update does the work as root.
// Errors: NO_SLOTS (no SD image), E_UPDATE (one is being installed), those of an upload, DATA_DIR etc. for a file that
// cannot be written.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { atomicWrite } from '../lib/atomic'
import { OsError, orElse } from '../lib/errors'
import { bytesText } from '../units/display'
import { Upload } from './upload'

/** bytes of the largest update: both parts of a slot, and their list */
const MOST = 192 * 2 ** 20

export interface SystemUpdate {
  show(): Record<string, unknown>
  /** A piece of an update at `offset`; 0 starts again. Returns the bytes so far. */
  piece(offset: number, bytes: Uint8Array): number
  /** Requests the update of an address, or the uploaded one, which has so many bytes. */
  request(source: string | number): void
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
  OS_NODE_UPDATE_UPLOAD: uploaded,
  OS_NODE_LOGGED_IN: login,
}: NodeJS.ProcessEnv): SystemUpdate | undefined {
  if (!shown || !request || !uploaded) return undefined
  const upload = new Upload(uploaded, bytes => {
    if (bytes > MOST) throw new OsError('BODY_TOO_LARGE', `an update has ${bytesText(MOST)} at most`)
  })
  // one that was not completed before this start
  if (!existsSync(request)) orElse(undefined, () => upload.remove())
  const show = (): Record<string, unknown> => {
    const slots = orElse(undefined, () => JSON.parse(readFileSync(shown, 'utf8')) as Record<string, unknown>)
    if (!slots)
      throw new OsError('NO_SLOTS', 'the system has not reported its slots yet', { hint: 'try again in a minute' })
    return slots
  }
  const idle = (): void => {
    if (!(show().progress || existsSync(request))) return
    upload.abandon()
    throw new OsError('E_UPDATE', 'an update is being installed')
  }
  return {
    show,
    piece(offset, bytes) {
      idle()
      return upload.piece(offset, bytes)
    },
    request(source) {
      idle()
      if (typeof source === 'number') upload.complete(source)
      atomicWrite(request, typeof source === 'number' ? uploaded : source)
    },
    loggedIn: () => login && orElse(undefined, () => writeFileSync(login, '')),
  }
}
