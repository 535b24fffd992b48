// Compares two logs: the same facts, no duplicates, and each value as the wire represents it.
import assert from 'node:assert/strict'
import { keyOf, kills, type LoggedFact, sensorsOf } from './gateway'

const sorted = (facts: LoggedFact[]): LoggedFact[] =>
  [...facts].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : keyOf(a) > keyOf(b) ? 1 : 0))

/** The wire keeps at least three digits (decision 0006). */
const close = (a: number | null, b: number | null): boolean =>
  a === b || (a !== null && b !== null && Math.abs(a - b) <= 1.001e-3 * Math.abs(a))

/** Packets per device that a receiver recognises as duplicates (decision 0018). */
const REMEMBERED = 4096

/**
 * Facts of one millisecond get rising times (decision 0044), so those of a killed process are up to this many ms later than its
 * kill. No process starts in less.
 */
const AHEAD_MS = 100

/** One of each fact, duplicates within the receiver's memory, and later duplicates. */
function counted(got: LoggedFact[]) {
  const places = new Map<string, number>()
  const counts = new Map<string, number>()
  const [once, twice, late] = [[] as LoggedFact[], [] as string[], [] as LoggedFact[]]
  for (const fact of got) {
    const key = keyOf(fact)
    const place = 1 + (counts.get(fact.id) ?? 0)
    counts.set(fact.id, place)
    const before = places.get(key)
    if (before === undefined) once.push(fact)
    else if (place - before <= REMEMBERED) twice.push(key)
    else late.push(fact)
    places.set(key, place)
  }
  return { once, twice, late }
}

function assertSameFact(sent: LoggedFact, got: LoggedFact): void {
  const names = (f: LoggedFact): string[] => sensorsOf(f).map(s => `${s.id} ${s.status} ${s.unit}`)
  assert.deepEqual(names(got), names(sent), keyOf(sent))
  const values = sensorsOf(got)
  assert.ok(values.length > 0)
  sensorsOf(sent).forEach((sensor, i) => {
    const { value } = values[i]!
    assert.ok(close(sensor.value, value), `${keyOf(sent)} ${sensor.id}: ${sensor.value} became ${value}`)
  })
}

/**
 * Facts between the last stored one before a kill and the kill are not compared: a killed sender may have sent them without
 * storing them (decision 0008). `got` is in the order of the receiver's log: a fact sent again after the receiver forgot it is there
 * twice, with the same values.
 */
export function assertSame(sent: LoggedFact[], got: LoggedFact[]): void {
  const left = sorted(sent)
  const ids = new Set([...left, ...got].map(({ id }) => id))
  const gaps = kills.flatMap(kill => {
    const to = kill + AHEAD_MS
    return [...ids].map(id => ({
      id,
      from: left.reduce((last, f) => (f.id === id && f.t_raw <= to ? Math.max(last, f.t_raw) : last), 0),
      to,
    }))
  })
  const unwritten = ({ id, t_raw }: LoggedFact): boolean =>
    gaps.some(gap => gap.id === id && t_raw > gap.from && t_raw <= gap.to)
  const { once, twice, late } = counted(got.filter(fact => !unwritten(fact)))
  const right = sorted(once)
  const sentKeys = new Set(left.map(keyOf))
  const gotKeys = new Set(right.map(keyOf))
  assert.deepEqual(
    {
      missing: [...sentKeys].filter(key => !gotKeys.has(key)),
      unknown: [...gotKeys].filter(key => !sentKeys.has(key)),
      twice,
    },
    { missing: [], unknown: [], twice: [] },
  )
  for (const [k, fact] of left.entries()) assertSameFact(fact, right[k]!)
  const byKey = new Map(left.map(fact => [keyOf(fact), fact]))
  for (const fact of late) assertSameFact(byKey.get(keyOf(fact))!, fact)
}
