// Actions of the user: one at a time, with the result in the line at the foot of the page.
import { useState } from 'preact/hooks'
import { say, sayError } from './action-message'
import { asApiError } from './api'

/** `act` runs `run` and shows its result; an error is shown after `what`. Then it calls `reload`, whatever the result. */
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

/** An answer that the user asks for: `ask` runs `run` and keeps its value, or its error. */
export function useAnswer<T>() {
  const [state, setState] = useState<{ busy?: boolean; value?: T; error?: string }>({})
  async function ask(run: () => Promise<T>): Promise<void> {
    setState({ busy: true })
    try {
      setState({ value: await run() })
    } catch (thrown) {
      setState({ error: asApiError(thrown).message })
    }
  }
  return { ...state, ask }
}

/** The fields of a submitted form, as texts; prevents the browser's own submit. */
export function fieldsOf(event: SubmitEvent): (name: string) => string {
  event.preventDefault()
  const values = new FormData(event.currentTarget as HTMLFormElement)
  return name => String(values.get(name) ?? '')
}
