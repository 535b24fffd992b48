// The text of the gateway, evaluated once for all processes of a simulator's process: V8 compiles and optimizes it once, and a start costs no
// evaluation. Its globals, node: modules and SIM are those of the process whose event runs (`running`), and its module-level state is one
// for each process (`SIM.own`, build.mjs). One seed in twenty runs a second time with a text of its own for each start: the traces must be equal.
//
// Errors: a call while no process runs throws, and is a failure of the seed (`running.strays`).
import { type Owner, running } from './engine'

/** A process, with the values of its text's parameters. */
export interface Process extends Owner {
  readonly globals: ReadonlyMap<string, unknown>
}

type Values = ReadonlyMap<string, unknown>
// biome-ignore lint/suspicious/noExplicitAny: any value of any module
type Anything = any

/** module-level state of each process, by name */
const states = new WeakMap<Owner, Map<string, Anything>>()

function current(): Process {
  const { owner } = running
  if (owner && 'globals' in owner) return owner as Process
  const error = new Error('no process runs')
  running.strays.push(String(error.stack))
  throw error
}

/** One for each process. */
function stateOf(name: string, make: () => object): Anything {
  const owner = current()
  let own = states.get(owner)
  if (!own) states.set(owner, (own = new Map()))
  if (!own.has(name)) own.set(name, make())
  return own.get(name)
}

/** A proxy of the collection of the process that runs. */
const own = (name: string, make: () => object): object =>
  new Proxy(
    {},
    {
      get: (_, key) => {
        const state = stateOf(name, make)
        const value = state[key]
        return typeof value === 'function' ? value.bind(state) : value
      },
    },
  )

/** A proxy of what `get` returns: functions and members are looked up when they are called. */
function proxyOf(get: () => Anything, sample: Anything): unknown {
  if (typeof sample !== 'function' && (typeof sample !== 'object' || sample === null)) return sample
  const members = new Map<string | symbol, unknown>()
  const call = function (this: unknown, ...parameters: unknown[]): unknown {
    return new.target ? Reflect.construct(get(), parameters) : Reflect.apply(get(), this, parameters)
  }
  const handler: ProxyHandler<Anything> = {
    get: (_, key) => {
      const known = members.get(key)
      if (known !== undefined) return known
      const value = get()[key]
      if (typeof value !== 'function' || key === 'prototype') return value
      const member = proxyOf(() => get()[key], value)
      members.set(key, member)
      return member
    },
    set: (_, key, value) => Reflect.set(get(), key, value),
    has: (_, key) => Reflect.has(get(), key),
  }
  if (typeof sample === 'function') return new Proxy(call, handler)
  return new Proxy(
    {},
    {
      ...handler,
      ownKeys: () => Reflect.ownKeys(get()),
      getOwnPropertyDescriptor: (_, key) => {
        const there = Reflect.getOwnPropertyDescriptor(get(), key)
        return there && { value: get()[key], enumerable: there.enumerable!, configurable: true, writable: true }
      },
    },
  )
}

/** Values of the text's parameters, as proxies of those of the process that runs; `first`: those of one, as samples. */
export function sharedGlobals(first: Values, pure: ReadonlySet<string>, sqlite: object): Map<string, unknown> {
  const of = (name: string): Anything => current().globals.get(name)
  const values = new Map<string, unknown>()
  for (const [name, sample] of first)
    values.set(
      name,
      proxyOf(() => of(name), sample),
    )
  for (const name of [
    'setTimeout',
    'setInterval',
    'setImmediate',
    'clearTimeout',
    'clearInterval',
    'clearImmediate',
    'queueMicrotask',
  ])
    values.set(name, (...parameters: unknown[]) => of(name)(...parameters))
  values.set('performance', { now: () => of('performance').now(), timeOrigin: 0 })
  values.set('Math', Object.create(Math, { random: { value: () => of('Math').random() } }))
  values.set(
    'Date',
    class extends Date {
      constructor(...parts: unknown[]) {
        if (parts.length === 0) super(of('Date').now())
        else super(...(parts as [number]))
      }
      static override now(): number {
        return of('Date').now()
      }
    },
  )
  const modules = new Map<string, unknown>()
  values.set('require', (path: string) => {
    const name = path.replace(/^node:/, '')
    if (pure.has(name)) return process.getBuiltinModule(name)
    if (!modules.has(name))
      modules.set(
        name,
        proxyOf(() => of('require')(name), of('require')(name)),
      )
    return modules.get(name)
  })
  values.set(
    'SIM',
    new Proxy({ own, stateOf, sqlite }, { get: (known, key) => Reflect.get(known, key) ?? of('SIM')[key] }),
  )
  return values
}
