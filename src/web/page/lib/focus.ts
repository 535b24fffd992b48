// Keeps the keyboard focus. A button that is disabled during its action, or a form that is removed after it, would lose
// the focus, and the next Tab would start at the top of the page: so the focus returns to the button when it is enabled
// again, or goes to the nearest element before it. A user who clicks outside of all elements, or tabs out of the page,
// has left on purpose.
const FOCUSABLE = 'a[href], button:enabled, input:enabled, select:enabled, textarea:enabled, summary, [tabindex="0"]'

/** the last focus, then the elements before it, the nearest first; the heading of the view at the end */
let places: HTMLElement[] = []

function remember(target: HTMLElement): void {
  const before = [...document.querySelectorAll<HTMLElement>(`main :is(h1, ${FOCUSABLE})`)].filter(
    element => element.checkVisibility() && element.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING,
  )
  // after a message or banner closes, the focus returns to its previous place
  places = [target, ...(target.closest('main') ? before.reverse() : places)]
}

function bringBack(): void {
  if (places.length === 0 || document.activeElement !== document.body) return
  const place = places.find(element => element.isConnected && element.checkVisibility())
  // no effect while it is disabled: tried again when that changes
  place?.focus({ preventScroll: true })
}

export function keepFocus(): void {
  document.addEventListener('focusin', ({ target }) => remember(target as HTMLElement))
  const leave = (): void => {
    places = []
  }
  document.addEventListener('pointerdown', leave)
  // after the last element the focus goes to the browser's own controls
  document.addEventListener('keydown', ({ key }) => key === 'Tab' && leave())
  const changes = new MutationObserver(bringBack)
  changes.observe(document.body, { subtree: true, childList: true, attributeFilter: ['disabled'] })
}
