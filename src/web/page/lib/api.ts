// One call to the gateway. An unsuccessful answer, or none, is an ApiError; status 0 means that the gateway was not
// reached. Only this file knows the current token; listeners are called when it was refused.

export class ApiError extends Error {
  constructor(
    /** HTTP status, 0: not reached */
    readonly status: number,
    readonly code: string,
    message: string,
    /** the complete body of the answer */
    readonly body: Readonly<Record<string, unknown>> = {},
  ) {
    super(message)
  }
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

interface CallOptions {
  body?: object
  signal?: AbortSignal
  timeoutMs?: number
  /** used instead of the current token */
  token?: string
}

const TOKEN_KEY = 'os-node-token'
const TIMEOUT_MS = 10_000

let token = sessionStorage.getItem(TOKEN_KEY)
const refused = new Set<(restarted: boolean) => void>()

export const currentToken = (): string | null => token

/** Stored only in this tab, until it is closed. */
export function useToken(next: string | null): void {
  token = next
  if (next === null) sessionStorage.removeItem(TOKEN_KEY)
  else sessionStorage.setItem(TOKEN_KEY, next)
}

/** Calls `listener` when the gateway requires another token; `restarted`: because a restart ended all sessions. */
export function onRefused(listener: (restarted: boolean) => void): void {
  refused.add(listener)
}

/** The error message, with the reason if the gateway knows it. */
function reasonOf(body: Readonly<Record<string, unknown>>, status: number): string {
  const parts = [body.error, body.reason].filter((text): text is string => typeof text === 'string' && text !== '')
  return parts.length > 0 ? parts.join(': ') : `the gateway answered ${status}`
}

const headers = (body: object | undefined, own: string | null): Record<string, string> => ({
  ...(own && { 'X-Admin-Token': own }),
  ...(body && { 'Content-Type': 'application/json' }),
})

/** The answer of a request before its body is read. The caller limits its time by `signal`. */
export async function open(
  method: Method,
  path: string,
  { body, signal, token: own }: CallOptions = {},
): Promise<Response> {
  try {
    return await fetch(path, {
      method,
      headers: headers(body, own ?? token),
      cache: 'no-store',
      credentials: 'omit',
      signal,
      ...(body && { body: JSON.stringify(body) }),
    })
  } catch {
    // the browser's own reason would not help the user
    throw new ApiError(0, 'UNREACHABLE', 'the gateway is not reachable')
  }
}

/** Aborts after `ms`, and when `outer` aborts; `done` stops the timer. */
export function deadline(ms: number, outer?: AbortSignal): { signal: AbortSignal; done(): void } {
  const abort = new AbortController()
  const stop = (): void => abort.abort()
  const timer = setTimeout(stop, ms)
  outer?.addEventListener('abort', stop, { once: true })
  return {
    signal: abort.signal,
    done: () => clearTimeout(timer),
  }
}

/** Throws the error in the answer. */
export async function failure(answer: Response, sent: string | null): Promise<ApiError> {
  const body = await answer.json().catch(() => ({})) // an answer that is not JSON has no message
  // an answer to an older token does not concern the current one
  if (answer.status === 401 && sent === token) for (const listener of refused) listener(body.restarted === true)
  return new ApiError(answer.status, String(body.code ?? ''), reasonOf(body, answer.status), body)
}

/** One request with its body, within its time limit; resolves with the body of a success. */
export async function call<T>(method: Method, path: string, options: CallOptions = {}): Promise<T> {
  const sent = options.token ?? token
  const { signal, done } = deadline(options.timeoutMs ?? TIMEOUT_MS, options.signal)
  try {
    const answer = await open(method, path, { ...options, signal })
    if (!answer.ok) throw await failure(answer, sent)
    const body = await read(answer, signal)
    if (body.ok === false)
      throw new ApiError(answer.status, String(body.code ?? ''), reasonOf(body, answer.status), body)
    return body as T
  } finally {
    done()
  }
}

async function read(answer: Response, signal: AbortSignal): Promise<Record<string, unknown>> {
  try {
    return await answer.json()
  } catch {
    if (signal.aborted) throw new ApiError(0, 'UNREACHABLE', 'the response was cut off')
    throw new ApiError(answer.status, 'NO_JSON', 'the response is not valid JSON')
  }
}

export const get = <T>(path: string, options?: CallOptions): Promise<T> => call<T>('GET', path, options)

export const asApiError = (thrown: unknown): ApiError =>
  thrown instanceof ApiError
    ? thrown
    : new ApiError(0, 'PAGE', thrown instanceof Error ? thrown.message : String(thrown))

/** `?a=1&b=x` of the values that are not empty */
export function query(values: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const parts = Object.entries(values)
    .filter(([, value]) => value !== undefined && value !== '')
    .map(([key, value]) => `${key}=${encodeURIComponent(String(value))}`)
  return parts.length > 0 ? `?${parts.join('&')}` : ''
}
