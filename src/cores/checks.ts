// The sums of received frames on the native core: one copy goes in, a byte for each frame comes out. Templates and facts are those of
// the receiver and live in JavaScript alone. Nothing here can fail: a frame too large for the module's memory counts as not
// looked at, and is read the slow way.
import type { FrameChecks } from '../pipeline/received'
import { nativeModule } from './native'

/** Null where there is no WebAssembly. */
export function createNativeChecks(): FrameChecks | null {
  const module = nativeModule()
  if (!module) return null
  const { bytes, ends: sent, mostFrames, input, inputSize, output, check } = module
  let good = new Uint8Array(mostFrames)
  return (frames, ends, count) => {
    if (good.length < count) good = new Uint8Array(count)
    for (let k = 0, from = 0; k < count; ) {
      // as many as the module has room for
      const first = k
      for (; k < count && k - first < mostFrames && ends[k]! - from <= inputSize; k++) sent[k - first] = ends[k]! - from
      const made = k - first
      if (made === 0) {
        good[k] = 0
        from = ends[k++]!
        continue
      }
      bytes.set(frames.subarray(from, ends[k - 1]!), input)
      check(made)
      for (let i = 0; i < made; i++) good[first + i] = bytes[output + i]!
      from = ends[k - 1]!
    }
    return good
  }
}
