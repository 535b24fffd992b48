// Whether a decoded fact equals the sent one, for the models of the link.
import type { Fact } from '../../../src/pipeline/fact'

/** The difference in words, or '' if they are equal. */
export function difference(got: Fact, sent: Fact): string {
  if (got.aid !== sent.aid || got.id !== sent.id || got.tRaw !== sent.tRaw) return 'another device or time'
  if (got.state !== sent.state || got.sensors.length !== sent.sensors.length) return 'another shape'
  if (JSON.stringify(got.extras) !== JSON.stringify(sent.extras)) return 'other extras'
  for (let k = 0; k < sent.sensors.length; k++) {
    const a = got.sensors[k]!
    const b = sent.sensors[k]!
    if (a.id !== b.id || a.status !== b.status || a.unit !== b.unit) return `sensor ${b.id}: another meaning`
    if (
      a.value === null || b.value === null
        ? a.value !== b.value
        : Math.abs(a.value - b.value) > 1e-9 * Math.abs(b.value)
    )
      return `sensor ${b.id}: another value`
  }
  return ''
}

/** The same for a fact of a rebuilt template (X33): it may omit sensors, and its states may be older. */
export function partialDifference(got: Fact, sent: Fact): string {
  const carried = got.sensors.map(({ id, status }) => {
    const sensor = sent.sensors.find(other => other.id === id)
    return sensor && { ...sensor, status }
  })
  const known = carried.filter(sensor => sensor !== undefined)
  return known.length < carried.length ? 'a sensor that was not sent' : difference(got, { ...sent, sensors: known })
}
