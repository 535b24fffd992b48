// The gateways of the simulated world on the native core (`--core rscore`): every frame that an uplink sends is made in WebAssembly, and the
// checksums of every frame that a receiver reads are checked there. Both cores give the same bytes, so a seed is the same run on either.
import { createNativeChecks } from '../../src/cores/checks'
import { nativeModule } from '../../src/cores/native'
import { NativeBatch } from '../../src/cores/stage'
import { PacketSlab } from '../../src/pipeline/slab'

let batch: NativeBatch | undefined
const checks = createNativeChecks()!
const ends = new Int32Array(1)

/** In place of PacketPlan.writeFrame. */
export function writeFrame(
  out: Uint8Array,
  at: number,
  ...[plan, full, policy, key]: Parameters<NativeBatch['add']>
): number {
  batch ??= new NativeBatch(nativeModule()!, new PacketSlab())
  batch.add(plan, full, policy, key)
  return batch.takeInto(out, at, ends)
}

/** In place of plainFrame. */
export function plainFrame(packet: Uint8Array): boolean {
  ends[0] = packet.length
  return checks(packet, ends, 1)[0] === 1
}
