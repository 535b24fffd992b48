// One number for what a fact says, so that the same packet delivered twice is known (D16). It is computed from the decoded
// fact, not from the bytes: a FULL and a DIFF of the same fact are the same, and it can be computed again from the log.
import type { Fact } from '../../pipeline/fact'

const double = new Float64Array(1)
const words = new Uint32Array(double.buffer)

function mixText(hash: number, text: string): number {
  for (let k = 0; k < text.length; k++) hash = Math.imul(hash ^ text.charCodeAt(k), 0x01000193)
  return Math.imul(hash ^ 0x1ff, 0x01000193)
}

/** 32 bits over device, state and every sensor (id, status, unit, value). */
export function contentHash(fact: Fact): number {
  let hash = mixText(mixText(0x811c9dc5 | 0, fact.id), fact.state)
  for (const sensor of fact.sensors) {
    hash = mixText(mixText(mixText(hash, sensor.id), sensor.status), sensor.unit)
    double[0] = sensor.value ?? Number.NaN
    hash = Math.imul(hash ^ words[0]!, 0x01000193)
    hash = Math.imul(hash ^ words[1]!, 0x01000193)
  }
  return hash >>> 0
}
