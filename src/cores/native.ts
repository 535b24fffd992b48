// The module of the native core: unpacked and compiled on first use, once per process. Each core has its own instance
// and memory (384 KiB, of which Linux allocates only written pages). If the platform has no WebAssembly (a system that
// forbids code generated at run time, or `node --jitless`) there is no module, and `whyNot` has the reason.
import { brotliDecompressSync } from 'node:zlib'
import { asOsError } from '../lib/errors'
import packed from './rscore.wasm'

/** the parts of the global WebAssembly used here; Node's types lack it */
interface WebAssemblyApi {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object) => { readonly exports: unknown }
}

interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer }
  encode(frames: number): number
  check(frames: number): void
  readonly ENDS: Value
  readonly MOST_FRAMES: Value
  readonly INPUT: Value
  readonly INPUT_SIZE: Value
  readonly OUTPUT: Value
}

interface Value {
  readonly value: number
}

export interface NativeModule {
  readonly bytes: Uint8Array
  readonly ends: Int32Array
  readonly mostFrames: number
  readonly input: number
  readonly inputSize: number
  readonly output: number
  encode(frames: number): number
  check(frames: number): void
}

const NONE = 'this Node runs without WebAssembly'
let compiled: object | null = null
let problem: string | null = null

/** An instance; null without WebAssembly. */
export function nativeModule(): NativeModule | null {
  const { WebAssembly } = globalThis as { WebAssembly?: WebAssemblyApi }
  if (!WebAssembly) return null
  try {
    compiled ??= new WebAssembly.Module(brotliDecompressSync(Buffer.from(packed, 'base64')))
    const e = new WebAssembly.Instance(compiled).exports as Exports
    problem = null
    return {
      bytes: new Uint8Array(e.memory.buffer),
      ends: new Int32Array(e.memory.buffer, e.ENDS.value, e.MOST_FRAMES.value),
      mostFrames: e.MOST_FRAMES.value,
      input: e.INPUT.value,
      inputSize: e.INPUT_SIZE.value,
      output: e.OUTPUT.value,
      encode: e.encode,
      check: e.check,
    }
  } catch (error) {
    problem = asOsError(error).message
    return null
  }
}

/** Why there is no native core here; null if there is one. */
export function whyNot(): string | null {
  if (!('WebAssembly' in globalThis)) return NONE
  if (compiled === null) nativeModule()
  return problem
}
