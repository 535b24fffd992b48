// Data of a view: requested when it is shown, then at its own interval, and when the gateway is back. The last answer
// stays until the next one arrives.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, asApiError, get } from './api'
import { live } from './live'

export interface Resource<T> {
  readonly data: T | undefined
  readonly error: ApiError | undefined
  readonly loading: boolean
  reload(): void
}

/** `path` null: no request. `everyMs` 0: only once. */
export function useResource<T>(path: string | null, everyMs = 0): Resource<T> {
  const [state, setState] = useState<{ path: string | null; data?: T; error?: ApiError; loading: boolean }>({
    path,
    loading: path !== null,
  })
  /** the request whose answer is awaited */
  const asking = useRef<AbortController | undefined>(undefined)

  const reload = useCallback(() => {
    if (path === null) return
    asking.current?.abort()
    const abort = new AbortController()
    asking.current = abort
    setState(old => ({ ...(old.path === path ? old : {}), path, loading: true }))
    const done = (change: { data?: T; error?: ApiError }): void => {
      if (abort.signal.aborted) return
      asking.current = undefined
      setState(old => ({ path, ...(old.path === path && { data: old.data }), ...change, loading: false }))
    }
    get<T>(path, { signal: abort.signal }).then(
      data => done({ data }),
      thrown => done({ error: asApiError(thrown) }),
    )
  }, [path])

  useEffect(() => {
    reload()
    let { connection } = live.value
    const stop = live.listen(() => {
      if (live.value.connection === 'up' && connection === 'away') reload()
      connection = live.value.connection
    })
    const timer =
      everyMs > 0
        ? setInterval(() => {
            if (!document.hidden && live.value.connection === 'up' && !asking.current) reload()
          }, everyMs)
        : undefined
    return () => {
      stop()
      clearInterval(timer)
      asking.current?.abort()
    }
  }, [reload, everyMs])

  const own = state.path === path
  return {
    data: own ? state.data : undefined,
    error: own ? state.error : undefined,
    loading: own ? state.loading : path !== null,
    reload,
  }
}

/** A clock for ages and countdowns: redraws every second. */
export function useSeconds(): void {
  const [, setCount] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setCount(count => count + 1)
    }, 1_000)
    return () => clearInterval(timer)
  }, [])
}
