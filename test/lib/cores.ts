// The native core as a gateway's choice, whatever it measures.
import { GatewayCores } from '../../src/cores'
import { silentLogger } from '../../src/lib/logger'
import type { FrameBatch } from '../../src/pipeline/batch'
import type { PacketSlab } from '../../src/pipeline/slab'

export class NativeCores extends GatewayCores {
  /** frames of the largest batch so far */
  largest = 0
  /** packets whose checksums were checked together */
  checked = 0

  constructor() {
    super(silentLogger, { uplinks: 'rscore', receivers: 'rscore' }, 1)
    const { sums } = this
    Object.assign(this, {
      sums: (...parts: Parameters<typeof sums>) => {
        this.checked += parts[2]
        return sums(...parts)
      },
    })
  }

  override batch(slab: PacketSlab): FrameBatch | null {
    const batch = super.batch(slab)!
    const take = batch.take.bind(batch)
    batch.take = () => {
      const frames = take()
      this.largest = Math.max(this.largest, frames.length)
      return frames
    }
    return batch
  }
}
