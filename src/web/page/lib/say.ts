// What an action came to: one line at the foot of the page, read out once by a screen reader, gone after a while.
import { asApiError } from './api'
import { Store } from './observable'

interface Said {
  readonly text: string
  readonly bad: boolean
  /** tells two equal texts apart */
  readonly count: number
}

const GOOD_MS = 5_000
const BAD_MS = 12_000

export const said = new Store<Said | null>(null)
let count = 0
let timer: ReturnType<typeof setTimeout> | undefined

export function say(text: string, bad = false): void {
  clearTimeout(timer)
  said.set({ text, bad, count: ++count })
  timer = setTimeout(() => said.set(null), bad ? BAD_MS : GOOD_MS)
}

export function sayError(thrown: unknown, what: string): void {
  const { message } = asApiError(thrown)
  say(`${what}: ${message}`, true)
}

export function unsay(): void {
  clearTimeout(timer)
  said.set(null)
}
