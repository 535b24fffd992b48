// Every suite is a list of named checks that pass or throw. A failed check does not stop the others. Checks yield to the
// event loop between them, so that a gateway that tests itself keeps working.
import { asOsError, OsError } from './program'

/** Passes, or throws the problem. */
export type PluginCheck = readonly [name: string, run: () => void | Promise<void>]

interface Failure {
  readonly name: string
  readonly error: string
}

interface SuiteReport {
  readonly name: string
  readonly ok: number
  readonly fail: number
  readonly ms: number
  readonly failures: readonly Failure[]
  /** names of passed checks; with verbosity 2 only */
  readonly passed?: readonly string[]
}

/** Maximum time between two yields to the event loop, unless a single check takes longer. */
const SLICE_MS = 20
const MAX_ERROR = 400

const messageOf = (thrown: unknown): string => {
  const { message } = thrown instanceof Error ? thrown : asOsError(thrown)
  return message.length > MAX_ERROR ? `${message.slice(0, MAX_ERROR)}…` : message
}

/** Yields to timers and sockets. */
export const breathe = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

export interface RunOptions {
  /** 0 counts, 1 names of failed checks, 2 names of all */
  readonly verbosity?: number
  readonly signal?: AbortSignal
}

/** Runs checks in order. Throws TIMEOUT if the signal is aborted. */
export async function runChecks(
  name: string,
  checks: Iterable<PluginCheck>,
  { verbosity = 1, signal }: RunOptions = {},
): Promise<SuiteReport> {
  const start = performance.now()
  const failures: Failure[] = []
  const passed: string[] = []
  let slice = start
  for (const [check, run] of checks) {
    if (signal?.aborted) throw new OsError('TIMEOUT', `${name}: stopped before the end`)
    try {
      await run()
      passed.push(check)
    } catch (thrown) {
      failures.push({ name: check, error: messageOf(thrown) })
    }
    if (performance.now() - slice > SLICE_MS) {
      await breathe()
      slice = performance.now()
    }
  }
  return {
    name,
    ok: passed.length,
    fail: failures.length,
    ms: Math.round(performance.now() - start),
    failures: verbosity > 0 ? failures : [],
    ...(verbosity > 1 && { passed }),
  }
}

/** Sums of several suites: `[passed, failed, suites]`. */
export type Outcome = readonly [ok: number, fail: number, result: { suites: SuiteReport[] }]

export const outcome = (suites: SuiteReport[]): Outcome => [
  suites.reduce((sum, { ok }) => sum + ok, 0),
  suites.reduce((sum, { fail }) => sum + fail, 0),
  { suites },
]
