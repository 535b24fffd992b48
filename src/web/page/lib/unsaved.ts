// Edited settings that are not saved: they survive a change of view but not the end of the session, and leaving the
// page asks first.

import { Store } from './observable'
import { session } from './session'

type Texts = Readonly<Record<string, string>>

/** edits by key, and their errors */
export const unsaved = new Store<{ edits: Texts; errors: Texts }>({ edits: {}, errors: {} })

export const forget = (): void => unsaved.set({ edits: {}, errors: {} })

session.listen(() => {
  if (session.value.state === 'out') forget()
})
addEventListener('beforeunload', event => {
  if (Object.keys(unsaved.value.edits).length > 0) event.preventDefault()
})
