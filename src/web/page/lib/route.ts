// The current view: `#/packets/<uuid>` → ['packets', '<uuid>'], with `?device_id=x` after it as values. It is in the
// address, so that back, forward, reload and shared links work.
import { Store } from './observable'

interface Route {
  readonly path: readonly string[]
  readonly values: Readonly<Record<string, string>>
}

function parseHash(hash: string): Route {
  const [path = '', values = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  return {
    path: path.split('/').filter(Boolean).map(plain),
    values: Object.fromEntries(new URLSearchParams(values)),
  }
}

/** A typed address may contain invalid percent-encoding. */
function plain(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export const href = (path: readonly string[], values: Readonly<Record<string, string>> = {}): string => {
  const filled = Object.entries(values).filter(([, value]) => value !== '')
  const tail = filled.length > 0 ? `?${new URLSearchParams(filled)}` : ''
  return `#/${path.map(encodeURIComponent).join('/')}${tail}`
}

export const route = new Store<Route>(parseHash(location.hash))
addEventListener('hashchange', () => route.set(parseHash(location.hash)))

/** The token of a sign-in link (`#/?token=…`), removed from the address so that no history contains it. */
export function takeToken(): string | undefined {
  const { path, values } = route.value
  const { token, ...others } = values
  if (token === undefined) return undefined
  history.replaceState(null, '', href(path, others))
  route.set({ path, values: others })
  return token
}

export function go(path: readonly string[], values?: Readonly<Record<string, string>>): void {
  location.hash = href(path, values)
}
