// The module of the native core: unpacked and compiled on first use, once per process, with one memory for all cores (384 KiB, of which Linux
// allocates only written pages), since nothing in it is kept from one call to the next. If the platform has no WebAssembly (a system that
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
  checkPackets(at: number, size: number, packets: number): void
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
  checkPackets(at: number, size: number, packets: number): void
}

const NONE = 'this Node runs without WebAssembly'
let made: NativeModule | null = null
let problem: string | null = null

/** Null without WebAssembly. */
export function nativeModule(): NativeModule | null {
  const { WebAssembly } = globalThis as { WebAssembly?: WebAssemblyApi }
  if (!WebAssembly) return null
  if (made) return made
  try {
    const compiled = new WebAssembly.Module(brotliDecompressSync(Buffer.from(packed, 'base64')))
    const e = new WebAssembly.Instance(compiled).exports as Exports
    problem = null
    return (made = {
      bytes: new Uint8Array(e.memory.buffer),
      ends: new Int32Array(e.memory.buffer, e.ENDS.value, e.MOST_FRAMES.value),
      mostFrames: e.MOST_FRAMES.value,
      input: e.INPUT.value,
      inputSize: e.INPUT_SIZE.value,
      output: e.OUTPUT.value,
      encode: e.encode,
      check: e.check,
      checkPackets: e.checkPackets,
    })
  } catch (error) {
    problem = asOsError(error).message
    return null
  }
}

/** Why there is no native core here; null if there is one. */
export function whyNot(): string | null {
  if (!('WebAssembly' in globalThis)) return NONE
  nativeModule()
  return problem
}
