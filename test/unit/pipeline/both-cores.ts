// One core for property tests that wraps both: every packet is made by pycore, and by the native core in WebAssembly, and bytes,
// errors and refused rows must be equal (P3).
import assert from 'node:assert/strict'
import { createNativeCore } from '../../../src/cores'
import type { Core } from '../../../src/pipeline/core'
import { createPureCore, type PureCoreOptions } from '../../../src/pipeline/pycore'

/**
 * pycore, whose `transmitFast` and `encodeInto` are compared with the native core. Its options have no folder and no
 * fusion.
 */
export function bothCores(options: PureCoreOptions): Core {
  const pure = createPureCore(options)
  const native = createNativeCore(options)
  assert.ok(native)
  const compared = <T>(ours: () => T, theirs: () => T): T => {
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
    // deepEqual takes longer than making the packet
    if (native.lastRejected.length + pure.lastRejected.length > 0)
      assert.deepEqual(native.lastRejected, pure.lastRejected)
    if (error !== undefined) throw error
    if (!(Buffer.isBuffer(value) && value.equals(other as never))) assert.deepEqual(other, value)
    return value!
  }
  const [transmitFast, encodeInto] = [pure.transmitFast.bind(pure), pure.encodeInto.bind(pure)]
  pure.transmitFast = (...call) =>
    compared(
      () => transmitFast(...call),
      () => {
        native.stage(...call)
        return native.take()[0]!
      },
    )
  pure.encodeInto = (out, at, ...call) =>
    compared(
      () => encodeInto(out, at, ...call),
      () => native.encodeInto(Buffer.alloc(out.length), at, ...call),
    )
  return pure
}
