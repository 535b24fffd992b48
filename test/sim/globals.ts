// What a simulated program may take from the real process, because it only computes: everything else is refused, noted, and fails the run.
import { runInNewContext } from 'node:vm'

export type Refuse = (name: string, known?: object) => unknown

/** Refuses what is not `known`: calling it records the name and throws ENOENT. A real call would never return in virtual time. */
export const refusing =
  (note: (what: string) => void): Refuse =>
  (name, known = {}) => {
    const refusal = (what: string) => () => {
      note(what)
      throw Object.assign(new Error(`ENOENT: ${what} is not in the simulated world`), { code: 'ENOENT' })
    }
    return new Proxy(known, {
      get: (target, key) => {
        if (Reflect.has(target, key)) return Reflect.get(target, key)
        if (typeof key === 'symbol' || key === '__esModule' || key === 'default') return undefined
        return refusal(`${name}.${key}`)
      },
      apply: refusal(name),
      construct: refusal(name),
    })
  }

/** These members of a real object. */
export const only = <T extends object>(of: T, ...names: (keyof T)[]): Partial<T> =>
  Object.fromEntries(names.map(name => [name, of[name]])) as Partial<T>

/** of node:crypto, node:os and node:zlib: neither random, nor of this machine, nor in the thread pool */
export const PURE = {
  crypto: [
    ...(['createHash', 'createHmac', 'hash', 'timingSafeEqual', 'createCipheriv', 'createDecipheriv'] as const),
    ...(['scryptSync', 'hkdfSync', 'constants'] as const),
  ],
  os: ['constants', 'EOL'],
  zlib: [
    ...(['brotliCompressSync', 'brotliDecompressSync', 'deflateRawSync', 'inflateRawSync'] as const),
    ...(['crc32', 'constants'] as const),
  ],
} as const

const REAL = globalThis as unknown as Record<string, object>
/** a caller of these waits for the garbage collector, or for another thread */
const NOT = ['WeakRef', 'FinalizationRegistry', 'Atomics', 'SharedArrayBuffer', 'Function', 'WebAssembly', 'console']
/** of the language, and of Node what only computes */
const COMPUTES = new Set([
  ...(runInNewContext('Object.getOwnPropertyNames(globalThis)') as string[]).filter(name => !NOT.includes(name)),
  ...['Buffer', 'URL', 'URLSearchParams', 'TextEncoder', 'TextDecoder', 'Event', 'EventTarget', 'AbortController'],
  ...['DOMException', 'structuredClone', 'atob', 'btoa'],
])
const COMPUTING = Object.assign(Object.create(null), only(REAL, ...[...COMPUTES].filter(name => name in REAL)))

/** Every other global of this Node. */
const OTHERS = Object.getOwnPropertyNames(globalThis).filter(name => !COMPUTES.has(name))
const WASM = ['Module', 'Instance', 'Memory', 'Table', 'Global', 'CompileError', 'LinkError', 'RuntimeError']

/** The globals of a program that are not the real ones: parameters of its text. */
export const SHADOWED = [...new Set([...OTHERS, 'Date', 'Math', 'globalThis'])]

/** Their values by name; `own`: those of its machine. */
export function globalsOf(refuse: Refuse, own: Record<string, unknown>): Record<string, unknown> {
  const all: Record<string, unknown> = Object.create(COMPUTING)
  for (const name of OTHERS) all[name] = refuse(name, class {})
  // it compiles in the background, too, which takes real time
  all['WebAssembly'] = refuse('WebAssembly', only(REAL['WebAssembly'] as Record<string, object>, ...WASM))
  // a text would see the real globals
  all['Function'] = refuse('Function', REAL['Function'])
  // not every Node has it, and SQLite asks for its language
  all['navigator'] = undefined
  return Object.assign(all, own, { globalThis: all, global: all })
}
