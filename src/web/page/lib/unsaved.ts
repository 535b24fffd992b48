// Settings that were typed and are not saved: a look at another view does not cost them, the end of the session does, and
// leaving the page asks first.

import { Store } from './observable'
import { session } from './session'

type Texts = Readonly<Record<string, string>>

/** what was typed by key, and what is wrong with it */
export const unsaved = new Store<{ edits: Texts; errors: Texts }>({ edits: {}, errors: {} })

export const forget = (): void => unsaved.set({ edits: {}, errors: {} })

session.listen(() => {
  if (session.value.state === 'out') forget()
})
addEventListener('beforeunload', event => {
  if (Object.keys(unsaved.value.edits).length > 0) event.preventDefault()
})
