// One number for what a fact says, so that the same packet delivered twice is known (D16). It is computed from the decoded
// fact, not from the bytes: a FULL and a DIFF of the same fact are the same, and it can be computed again from the log.
// Values count as the wire would carry them, so that a copy that came through another gateway, which may have rounded
// what its device sent in another unit, is the same too.
import type { Fact } from '../../pipeline/fact'
import type { WirePickers } from '../../pipeline/wireunit'
import { POW10 } from '../../wire/base62'

const double = new Float64Array(1)
const words = new Uint32Array(double.buffer)

function mixText(hash: number, text: string): number {
  for (let k = 0; k < text.length; k++) hash = Math.imul(hash ^ text.charCodeAt(k), 0x01000193)
  return Math.imul(hash ^ 0x1ff, 0x01000193)
}

function mixNumber(hash: number, value: number): number {
  double[0] = value
  // the upper half has the digits of round numbers: without the shift they would stay in the upper half of the hash
  const upper = Math.imul(hash ^ words[1]! ^ (words[1]! >>> 15), 0x01000193)
  return Math.imul(upper ^ words[0]! ^ (upper >>> 13), 0x01000193)
}

/** 32 bits over device, state, every sensor (id, status, unit, value) and the extras, in the order decoding gives them. */
export function contentHash(fact: Fact, pickers: WirePickers): number {
  let hash = mixText(mixText(0x811c9dc5 | 0, fact.id), fact.state)
  for (const { id, status, unit, value } of fact.sensors) {
    hash = mixText(mixText(mixText(hash, id), status), unit)
    const choice = value === null ? null : pickers.get(unit).pick(value)
    if (!choice) hash = mixNumber(hash, value ?? Number.NaN)
    else
      hash = mixNumber(mixNumber(hash, choice.perUnit), Math.round(value! * choice.perUnit * POW10[pickers.precision]!))
  }
  for (const key in fact.extras) hash = mixText(mixText(hash, key), fact.extras[key]!)
  return (hash ^ (hash >>> 16)) >>> 0
}
