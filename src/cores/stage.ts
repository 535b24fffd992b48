// A batch of frames for the native core: plans and templates are written as cells of eight bytes, from which WebAssembly
// makes the frames (rscore.as). Templates and plans belong to the pure core and exist only in JavaScript, so both cores
// can be used in turn. One copy goes in and one comes out. No errors: a frame too large for the module's memory is
// written by its plan.
//
// head      u8 cmd, u8 tid, u16 count of sensors, u32 aid; f64 time
// key       of a secure frame: text
// FULL      numbers of all sensors; text before the time, before each number, at the end
// DIFF      for each 16 sensors u32 mask, u32 0, then for each bit of it text (even) or number (odd)
// text      u32 length, bytes, up to the next cell
// number    f64, fixed point
import { copyFrames, type FrameBatch, tooLarge } from '../pipeline/batch'
import type { PacketPlan } from '../pipeline/plan'
import type { PacketSlab } from '../pipeline/slab'
import { type DiffPolicy, TS } from '../pipeline/templates'
import { COMMAND, secureCommand } from '../wire/commands'
import type { NativeModule } from './native'

/** sensors of one cell of the mask */
const GROUP = 16
const MOST_SENSORS = 0xffff

export class NativeBatch implements FrameBatch {
  readonly #module: NativeModule
  readonly #slab: PacketSlab
  readonly #cells: number
  readonly #floats: Float64Array
  readonly #words: Int32Array
  readonly #bytes: Uint8Array
  /** the next cell */
  #at = 0
  #staged = 0
  /** finished frames, made early because the memory was full or too small for one */
  #ready: Buffer[] = []

  constructor(module: NativeModule, slab: PacketSlab) {
    this.#module = module
    this.#slab = slab
    this.#cells = module.inputSize >> 3
    this.#floats = new Float64Array(this.#cells)
    this.#words = new Int32Array(this.#floats.buffer)
    this.#bytes = new Uint8Array(this.#floats.buffer)
  }

  get count(): number {
    return this.#ready.length + this.#staged
  }

  add(plan: PacketPlan, full: boolean, policy: DiffPolicy, key: Uint8Array | null): number {
    const room = plan.maxCells + (key === null ? 0 : 2 + (key.length >> 3))
    if (this.#at + room > this.#cells || this.#staged === this.#module.mostFrames) {
      if (room > this.#cells || plan.count > MOST_SENSORS) return this.#large(plan, full, policy, key)
      this.#run()
    }
    const template = plan.template!
    const times = plan.times
    const words = this.#words
    const isFull = full || plan.longMeta || template.fullDue(policy, times)
    const base = template.base(policy, times)
    const ordinal = template.ordinal + 1
    const head = this.#at
    let at = head + 2
    if (key !== null) at = this.#text(at, key)
    let cmd: number
    if (isFull) {
      at = this.#full(at, plan)
      template.book(plan.metaText, plan.numbers, ordinal)
      cmd = COMMAND.DATA_FULL
    } else {
      const first = at
      at = this.#diff(at, plan, base, ordinal)
      cmd = at === first ? COMMAND.DATA_HEART : COMMAND.DATA_DIFF
    }
    template.sent(isFull, times)
    if (key !== null) cmd = secureCommand(cmd)
    words[2 * head] = cmd | (template.tid << 8) | (plan.count << 16)
    words[2 * head + 1] = plan.aidWord
    this.#floats[head + 1] = times[TS]!
    this.#at = at
    this.#staged++
    return cmd
  }

  #diff(start: number, plan: PacketPlan, base: number, ordinal: number): number {
    const { count, numbers, metaText } = plan
    const { metas, numbers: last, metaOrdinals, valueOrdinals } = plan.template!
    const floats = this.#floats
    let any = false
    let at = start
    for (let first = 0; first < count; first += GROUP) {
      const end = count < first + GROUP ? count : first + GROUP
      const maskAt = 2 * at++
      let mask = 0
      for (let i = first; i < end; i++) {
        const text = metaText[i]!
        if (text !== metas[i]) {
          metas[i] = text
          metaOrdinals[i] = ordinal
        }
        if (metaOrdinals[i]! > base) {
          mask |= 1 << (2 * (i - first))
          at = this.#text(at, plan.metaBytes[i]!)
        }
        const n = numbers[i]!
        if (n !== last[i]) {
          last[i] = n
          valueOrdinals[i] = ordinal
        }
        if (valueOrdinals[i]! > base) {
          mask |= 2 << (2 * (i - first))
          floats[at++] = n
        }
      }
      this.#words[maskAt] = mask
      if (mask !== 0) any = true
    }
    return any ? at : start
  }

  #full(at: number, plan: PacketPlan): number {
    const { count } = plan
    const pieces = plan.pieces()
    this.#floats.set(plan.numbers, at)
    at = this.#text(at + count, plan.head)
    for (let i = 0; i <= count; i++) at = this.#text(at, pieces[i]!)
    return at
  }

  #text(at: number, bytes: Uint8Array): number {
    const { length } = bytes
    this.#words[2 * at] = length
    const from = 8 * at + 4
    for (let k = 0; k < length; k++) this.#bytes[from + k] = bytes[k]!
    return at + ((length + 11) >> 3)
  }

  /** A frame that does not fit into the module's memory. */
  #large(plan: PacketPlan, full: boolean, policy: DiffPolicy, key: Uint8Array | null): number {
    this.#run()
    const at = this.#slab.reserve(plan.maxSize)
    const frame = this.#slab.take(at, plan.writeFrame(this.#slab.chunk, at, full, policy, key))
    this.#ready.push(frame)
    return frame[0]!
  }

  #encode(): number {
    const { bytes, input, encode } = this.#module
    bytes.set(this.#bytes.subarray(0, 8 * this.#at), input)
    return encode(this.#staged)
  }

  #clear(): void {
    this.#at = 0
    this.#staged = 0
  }

  /** Passes the staged frames to the module and creates views of the results. */
  #run(): void {
    if (this.#staged === 0) return
    const size = this.#encode()
    const { bytes, ends, output } = this.#module
    const slab = this.#slab
    let at = slab.reserve(size)
    slab.chunk.set(bytes.subarray(output, output + size), at)
    const first = at
    for (let k = 0; k < this.#staged; k++) {
      const end = first + ends[k]!
      this.#ready.push(slab.take(at, end))
      at = end
    }
    this.#clear()
  }

  take(): Buffer[] {
    this.#run()
    const frames = this.#ready
    this.#ready = []
    return frames
  }

  takeInto(out: Uint8Array, at: number, ends: Float64Array | Int32Array): number {
    if (this.#ready.length > 0) {
      this.#run()
      const end = copyFrames(this.#ready, out, at, ends)
      this.#ready = []
      return end
    }
    if (this.#staged === 0) return at
    const size = this.#encode()
    const { bytes, ends: made, output } = this.#module
    if (out.length - at < size || ends.length < this.#staged) {
      this.#run()
      throw tooLarge(size, this.#ready.length)
    }
    out.set(bytes.subarray(output, output + size), at)
    for (let k = 0; k < this.#staged; k++) ends[k] = at + made[k]!
    this.#clear()
    return at + size
  }
}
