// Whether two logs say the same: the same facts, none twice, and each value as the wire keeps it.
import assert from 'node:assert/strict'
import { keyOf, kills, type LoggedFact, sensorsOf } from './gateway'

const sorted = (facts: LoggedFact[]): LoggedFact[] =>
  [...facts].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : keyOf(a) > keyOf(b) ? 1 : 0))

/** The wire keeps at least three digits (D3). */
const close = (a: number | null, b: number | null): boolean =>
  a === b || (a !== null && b !== null && Math.abs(a - b) <= 1.001e-3 * Math.abs(a))

/**
 * What a killed sender had sent and could not write any more (D24) is not compared: facts between the last one it kept before
 * the kill and the kill.
 */
export function assertSame(sent: LoggedFact[], got: LoggedFact[]): void {
  const left = sorted(sent)
  const lastKept = (id: string, kill: number): number =>
    Math.max(0, ...left.filter(f => f.id === id && f.t_raw <= kill).map(f => f.t_raw))
  const unwritten = ({ id, t_raw }: LoggedFact): boolean =>
    kills.some(kill => t_raw <= kill && t_raw > lastKept(id, kill))
  const right = sorted(got).filter(fact => !unwritten(fact))
  const sentKeys = new Set(left.map(keyOf))
  const gotKeys = new Set(right.map(keyOf))
  assert.deepEqual(
    {
      missing: [...sentKeys].filter(key => !gotKeys.has(key)),
      unknown: [...gotKeys].filter(key => !sentKeys.has(key)),
      twice: right.map(keyOf).filter((key, k, all) => key === all[k - 1]),
    },
    { missing: [], unknown: [], twice: [] },
  )
  left.forEach((fact, k) => {
    const other = right[k]!
    const names = (f: LoggedFact): string[] => sensorsOf(f).map(s => `${s.id} ${s.status} ${s.unit}`)
    assert.deepEqual(names(other), names(fact), keyOf(fact))
    const values = sensorsOf(other)
    assert.ok(values.length > 0)
    sensorsOf(fact).forEach((sensor, i) => {
      const { value } = values[i]!
      assert.ok(close(sensor.value, value), `${keyOf(fact)} ${sensor.id}: ${sensor.value} became ${value}`)
    })
  })
}
