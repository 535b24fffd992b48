// What a reader sets off: one action at a time, its outcome said in the line at the foot of the page.
import { useState } from 'preact/hooks'
import { say, sayError } from './say'

/** `act` runs `run` and says what it resolves with; an error is said after `what`. Then `reload`, whatever came of it. */
export function useAction(reload?: () => void) {
  const [busy, setBusy] = useState(false)
  async function act(what: string, run: () => Promise<string>): Promise<void> {
    setBusy(true)
    try {
      say(await run())
    } catch (thrown) {
      sayError(thrown, what)
    }
    setBusy(false)
    reload?.()
  }
  return { busy, act }
}

/** The fields of a form that is submitted, as texts; the browser does not send it itself. */
export function fieldsOf(event: SubmitEvent): (name: string) => string {
  event.preventDefault()
  const values = new FormData(event.currentTarget as HTMLFormElement)
  return name => String(values.get(name) ?? '')
}
