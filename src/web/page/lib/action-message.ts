// The result of an action: one line at the foot of the page, read once by a screen reader, removed after a while.
import { asApiError } from './api'
import { Store } from './observable'

interface Said {
  readonly text: string
  readonly bad: boolean
  /** distinguishes two equal texts */
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
