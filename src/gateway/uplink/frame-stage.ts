// Frames of one uplink that the native core makes together: each is staged when it is packed, and gets its bytes in finish(). Called
// per packet, so it allocates only what the encoder does.
import type { GatewayCores } from '../../cores'
import type { Clock } from '../../lib/clock'
import type { FrameBatch } from '../../pipeline/batch'
import type { Fact } from '../../pipeline/fact'
import type { EncodedFrame, EncodeOptions, UplinkEncoder } from '../../pipeline/sender'
import type { PacketSlab } from '../../pipeline/slab'

export interface StageParts {
  cores: GatewayCores
  slab: PacketSlab
  clock: Clock
  /** the frame of record `seq` has its bytes, at that mono time */
  made: (fact: Fact, packet: EncodedFrame, at: number, seq: number) => void
}

export class FrameStage {
  readonly #parts: StageParts
  /** made on first use */
  #native: FrameBatch | null = null
  /** null: the next frames are not staged */
  #batch: FrameBatch | null = null
  /** of the frames in it, by their place */
  readonly #packets: { -readonly [K in keyof EncodedFrame]: EncodedFrame[K] }[] = []
  readonly #facts: Fact[] = []
  readonly #seqs: number[] = []

  constructor(parts: StageParts) {
    this.#parts = parts
  }

  /** The next frames are staged if the native core is chosen and enough records wait. */
  begin(waiting: () => number): void {
    const { cores, slab } = this.#parts
    this.#batch = cores.stages(waiting) ? (this.#native ??= cores.batch(slab)) : null
  }

  /** The frame without its bytes; null: it must be made at once. */
  add(
    encoder: UplinkEncoder,
    fact: Fact,
    limit: number,
    seq: number,
    options: EncodeOptions,
    key: Uint8Array | null,
  ): EncodedFrame | null {
    const staged = this.#batch && encoder.stage(fact, limit, this.#batch, options, key)
    if (!staged) return null
    this.#packets.push(staged)
    this.#facts.push(fact)
    this.#seqs.push(seq)
    return staged
  }

  /** Makes the bytes of the staged frames. */
  finish(): void {
    if (this.#packets.length === 0) return
    const { clock, made } = this.#parts
    const frames = this.#native!.take()
    const now = clock.mono()
    for (let k = 0; k < frames.length; k++) {
      const packet = this.#packets[k]!
      packet.bytes = frames[k]!
      packet.size = packet.bytes.length
      made(this.#facts[k]!, packet, now, this.#seqs[k]!)
    }
    this.#packets.length = this.#facts.length = this.#seqs.length = 0
  }
}
