// Hashes the content of a fact, so that duplicate packets are detected (decision 0018). The hash covers the decoded fact, not the
// bytes: a FULL and a DIFF of the same fact have the same hash, and it can be computed again from the log. Values are hashed
// as they are encoded on the wire, so that a copy through another gateway, which may have rounded values in another unit, has
// the same hash too.
import type { Fact } from '../../pipeline/fact'
import { hashText } from '../../pipeline/slot-meta-cache'
import type { WirePickers } from '../../pipeline/wireunit'
import { POW10 } from '../../wire/base62'

const double = new Float64Array(1)
const words = new Uint32Array(double.buffer)

function mixNumber(hash: number, value: number): number {
  double[0] = value
  // round numbers differ only in the upper half: without the shift they would only affect the upper half of the hash
  const upper = Math.imul(hash ^ words[1]! ^ (words[1]! >>> 15), 0x01000193)
  return Math.imul(upper ^ words[0]! ^ (upper >>> 13), 0x01000193)
}

/** 32 bits over device, state, every sensor (id, status, unit, value) and the extras, in decoding order. */
export function contentHash(fact: Fact, pickers: WirePickers): number {
  let hash = hashText(fact.state, hashText(fact.id))
  for (const { id, status, unit, value } of fact.sensors) {
    hash = hashText(unit, hashText(status, hashText(id, hash)))
    const choice = value === null ? null : pickers.get(unit).pick(value)
    if (!choice) hash = mixNumber(hash, value ?? Number.NaN)
    else
      hash = mixNumber(mixNumber(hash, choice.perUnit), Math.round(value! * choice.perUnit * POW10[pickers.precision]!))
  }
  for (const key in fact.extras) hash = hashText(fact.extras[key]!, hashText(key, hash))
  return (hash ^ (hash >>> 16)) >>> 0
}
