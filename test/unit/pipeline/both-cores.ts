// For property tests: one core, and one encoder of an uplink, that wrap both. Every packet is made by pycore, and by the native core in
// WebAssembly, and bytes, errors and refused rows must be equal (P3).
import assert from 'node:assert/strict'
import { createNativeCore } from '../../../src/cores'
import { nativeModule } from '../../../src/cores/native'
import { NativeBatch } from '../../../src/cores/stage'
import type { Core } from '../../../src/pipeline/core'
import { createPureCore, type PureCoreOptions } from '../../../src/pipeline/pycore'
import { UplinkEncoder } from '../../../src/pipeline/sender'
import { PacketSlab } from '../../../src/pipeline/slab'

/** What `ours` returns or throws; `theirs` must do the same. `equal` compares faster than deepEqual where it can. */
function compared<T>(ours: () => T, theirs: () => T, equal: (a: T, b: T) => boolean, alsoEqual = () => {}): T {
  let [value, other]: [T | null, T | null] = [null, null]
  let [error, otherError]: unknown[] = []
  try {
    value = ours()
  } catch (thrown) {
    error = thrown
  }
  try {
    other = theirs()
  } catch (thrown) {
    otherError = thrown
  }
  assert.equal(String(otherError), String(error))
  alsoEqual()
  if (error !== undefined) throw error
  if (!equal(value!, other!)) assert.deepEqual(other, value)
  return value!
}

/** An encoder whose encode() is compared with a second one's, which stages every frame for the native core. */
export class BothEncoders extends UplinkEncoder {
  readonly #twin: UplinkEncoder
  readonly #batch: NativeBatch

  constructor(options: ConstructorParameters<typeof UplinkEncoder>[0]) {
    super(options)
    this.#twin = new UplinkEncoder({ ...options, engine: this.engine })
    const module = nativeModule()
    assert.ok(module)
    this.#batch = new NativeBatch(module, new PacketSlab())
  }

  override encode(...call: Parameters<UplinkEncoder['encode']>): ReturnType<UplinkEncoder['encode']> {
    const [fact, options, key] = call
    return compared(
      () => super.encode(...call),
      () => {
        const staged = this.#twin.stage(fact, Number.POSITIVE_INFINITY, this.#batch, options, key)!
        const bytes = this.#batch.take()[0]!
        return { ...staged, bytes, size: bytes.length }
      },
      (a, b) =>
        a.bytes.equals(b.bytes) &&
        a.tid === b.tid &&
        a.ordinal === b.ordinal &&
        a.cmd === b.cmd &&
        a.maxSize === b.maxSize,
    )
  }

  /** It makes one frame, which is not part of a batch. */
  override encodeFull(...call: Parameters<UplinkEncoder['encodeFull']>): ReturnType<UplinkEncoder['encodeFull']> {
    return compared(
      () => super.encodeFull(...call),
      () => this.#twin.encodeFull(...call),
      (a, b) => a.bytes.equals(b.bytes),
    )
  }

  override acknowledged(tid: number, ordinal: number): void {
    super.acknowledged(tid, ordinal)
    this.#twin.acknowledged(tid, ordinal)
  }

  override keyFrameNext(tid?: number): void {
    super.keyFrameNext(tid)
    this.#twin.keyFrameNext(tid)
  }
}

/**
 * pycore, whose `transmitFast` and `encodeInto` are compared with the native core. Its options have no folder and no
 * fusion.
 */
export function bothCores(options: PureCoreOptions): Core {
  const pure = createPureCore(options)
  const native = createNativeCore(options)
  assert.ok(native)
  // deepEqual takes longer than making the packet
  const equal = (a: unknown, b: unknown): boolean => (Buffer.isBuffer(a) && a.equals(b as never)) || a === b
  const rejected = (): void => {
    if (native.lastRejected.length + pure.lastRejected.length > 0)
      assert.deepEqual(native.lastRejected, pure.lastRejected)
  }
  const [transmitFast, encodeInto] = [pure.transmitFast.bind(pure), pure.encodeInto.bind(pure)]
  pure.transmitFast = (...call) =>
    compared(
      () => transmitFast(...call),
      () => {
        native.stage(...call)
        return native.take()[0]!
      },
      equal,
      rejected,
    )
  pure.encodeInto = (out, at, ...call) =>
    compared(
      () => encodeInto(out, at, ...call),
      () => native.encodeInto(Buffer.alloc(out.length), at, ...call),
      equal,
      rejected,
    )
  return pure
}
