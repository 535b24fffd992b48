// Small helpers over the DOM. Text only ever goes in as text nodes, so no value of a device can become markup. Nodes are
// kept and changed in place: focus, selection and the reader's place survive every update.

type Child = Node | string

/** Makes an element: `el('p', { class: 'quiet' }, 'text')`. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag)
  for (const name in attributes) node.setAttribute(name, attributes[name]!)
  node.append(...children)
  return node
}

export function svg(tag: string, attributes: Readonly<Record<string, string>>): SVGElement {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const name in attributes) node.setAttribute(name, attributes[name]!)
  return node
}

export const byId = (id: string): HTMLElement => {
  const node = document.getElementById(id)
  if (!node) throw new Error(`the page has no element ${id}`)
  return node
}

export function setText(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text
}

export function setAttribute(node: Element, name: string, value: string): void {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value)
}

export function show(node: HTMLElement, visible: boolean): void {
  if (node.hidden === visible) node.hidden = !visible
}

/** One item of a list: its node, and how it takes new data. */
export interface View<T> {
  readonly node: HTMLElement
  update(item: T): void
}

/** Keeps a parent's children in step with a list of items, one view per key. */
export class List<T> {
  readonly #views = new Map<string, View<T>>()

  constructor(
    private readonly parent: HTMLElement,
    private readonly key: (item: T) => string,
    private readonly create: (item: T) => View<T>,
  ) {}

  update(items: readonly T[]): void {
    const gone = new Set(this.#views.keys())
    let before = this.parent.firstElementChild
    for (const item of items) {
      const key = this.key(item)
      let view = this.#views.get(key)
      if (!view) {
        view = this.create(item)
        this.#views.set(key, view)
      }
      gone.delete(key)
      view.update(item)
      if (view.node === before) before = before.nextElementSibling
      else this.parent.insertBefore(view.node, before)
    }
    for (const key of gone) {
      this.#views.get(key)?.node.remove()
      this.#views.delete(key)
    }
  }
}
