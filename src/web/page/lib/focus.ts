// Keeps the keyboard where it was. A button that is disabled while its action runs, or a form that goes away when it is done,
// would leave the focus nowhere, and the next Tab would start at the top of the page: the focus comes back to the button when
// it can be used again, or goes to what is nearest before it. Who clicks beside everything, or tabs out of the page, has
// left on purpose.
const FOCUSABLE = 'a[href], button:enabled, input:enabled, select:enabled, textarea:enabled, summary, [tabindex="0"]'

/** where the focus was last, then what is before it, the nearest first; the heading of the view at the end */
let places: HTMLElement[] = []

function remember(target: HTMLElement): void {
  const before = [...document.querySelectorAll<HTMLElement>(`main :is(h1, ${FOCUSABLE})`)].filter(
    element => element.checkVisibility() && element.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING,
  )
  // a message or banner that closes leads back to where one was
  places = [target, ...(target.closest('main') ? before.reverse() : places)]
}

function bringBack(): void {
  if (places.length === 0 || document.activeElement !== document.body) return
  const place = places.find(element => element.isConnected && element.checkVisibility())
  // nothing happens while it is disabled: it is tried again when that changes
  place?.focus({ preventScroll: true })
}

export function keepFocus(): void {
  document.addEventListener('focusin', ({ target }) => remember(target as HTMLElement))
  const leave = (): void => {
    places = []
  }
  document.addEventListener('pointerdown', leave)
  // behind the last element the browser's own controls follow
  document.addEventListener('keydown', ({ key }) => key === 'Tab' && leave())
  const changes = new MutationObserver(bringBack)
  changes.observe(document.body, { subtree: true, childList: true, attributeFilter: ['disabled'] })
}
