// Light, dark, or as the device has it. The choice is stored in this browser.
import { Store } from './observable'

export type Theme = 'auto' | 'light' | 'dark'

const KEY = 'os-node-theme'
const THEMES: readonly Theme[] = ['auto', 'light', 'dark']

const isTheme = (text: unknown): text is Theme => THEMES.includes(text as Theme)

/** The browser may forbid storage; then the choice lasts until the page is closed. */
function kept(): Theme | null {
  try {
    const text = localStorage.getItem(KEY)
    return isTheme(text) ? text : null
  } catch {
    return null
  }
}

export const theme = new Store<Theme>(kept() ?? 'auto')

const apply = (): void => {
  document.documentElement.dataset.theme = theme.value
}
apply()
theme.listen(apply)

export function chooseTheme(next: Theme): void {
  theme.set(next)
  try {
    localStorage.setItem(KEY, next)
  } catch {
    // see kept()
  }
}

/** The gateway's suggestion (web_user.ui.ui_theme) applies until the user chooses. */
export function suggestTheme(wish: unknown): void {
  if (kept() === null && isTheme(wish)) theme.set(wish)
}

const media = matchMedia('(prefers-color-scheme: dark)')

/** Calls `listener` when colours change; returns the function that ends it. */
export function onColours(listener: () => void): () => void {
  media.addEventListener('change', listener)
  const stop = theme.listen(listener)
  return () => {
    media.removeEventListener('change', listener)
    stop()
  }
}
