// A Bloom filter of uuids: it proves that a uuid is absent. 16 bits per entry and 8 probes: one in 1700 is a false "maybe",
// which costs opening its window. A uuid is already a hash (except for version and variant in bytes 6 and 8), so two words of
// it give the probes.

const BITS = 16
const PROBES = 8

/** An empty filter for `entries` uuids. */
export const newBloom = (entries: number): Uint8Array => new Uint8Array(Math.max(8, Math.ceil((entries * BITS) / 8)))

/** Calls back with the bits of a uuid until the callback returns false. */
function probes(bloom: Uint8Array, uuid: Uint8Array, each: (byte: number, mask: number) => boolean): boolean {
  const bits = bloom.length * 8
  const word = (at: number): number =>
    uuid[at]! * 0x1000000 + uuid[at + 1]! * 0x10000 + uuid[at + 2]! * 0x100 + uuid[at + 3]!
  const step = word(12)
  let at = word(0)
  for (let k = 0; k < PROBES; k++, at += step) {
    const bit = at % bits
    if (!each(bit >> 3, 1 << (bit & 7))) return false
  }
  return true
}

export function addTo(bloom: Uint8Array, uuid: Uint8Array): void {
  probes(bloom, uuid, (byte, mask) => {
    bloom[byte]! |= mask
    return true
  })
}

/** False: the uuid was never added. */
export const mayHold = (bloom: Uint8Array, uuid: Uint8Array): boolean =>
  probes(bloom, uuid, (byte, mask) => (bloom[byte]! & mask) !== 0)
