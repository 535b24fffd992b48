// Checksums of received frames on the native core: one copy in, one byte per frame out. Templates and facts belong to
// the receiver and exist only in JavaScript. No errors: a frame too large for the module's memory is checked in
// JavaScript.
import type { FrameChecks } from '../pipeline/received'
import { nativeModule } from './native'

/** Null without WebAssembly. */
export function createNativeChecks(): FrameChecks | null {
  const module = nativeModule()
  if (!module) return null
  const { bytes, ends: sent, mostFrames, input, inputSize, output, check } = module
  let good = new Uint8Array(mostFrames)
  return (frames, ends, count) => {
    if (good.length < count) good = new Uint8Array(count)
    for (let k = 0, from = 0; k < count; ) {
      // as many as fit into the module's memory
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

/**
 * The same for `n` packets in `raw` from `at` on, each with its length (u16) before it, as in a frame of the delivery exchange. Null: they are not
 * checked together.
 */
export type PacketSums = (raw: Uint8Array, at: number, n: number) => Uint8Array | null

/** Null without WebAssembly. No view and no copy of a packet: the frame goes in as it is, at some 10,000 packets a second. */
export function createPacketSums(): PacketSums | null {
  const module = nativeModule()
  if (!module) return null
  const { bytes, input, inputSize, output, checkPackets } = module
  return (raw, at, n) => {
    if (raw.length > inputSize) return null
    bytes.set(raw, input)
    checkPackets(at, raw.length, n)
    // the next call may come while the caller reads these
    return bytes.slice(output, output + n)
  }
}
