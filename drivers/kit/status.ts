// Status word of a value: the first rule whose bounds are all met, else OK. Pure; runs once per value.
import type { StatusRule } from './common-options'

/** Scaling makes the last digits inexact: 0.1 + 0.2 equals 0.3 here. */
const same = (a: number, b: number): boolean => Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b))

function fits({ above, below, from, to, equals }: StatusRule, value: number): boolean {
  if (above !== undefined && !(value > above)) return false
  if (below !== undefined && !(value < below)) return false
  if (from !== undefined && !(value >= from)) return false
  if (to !== undefined && !(value <= to)) return false
  if (equals === undefined) return true
  return typeof equals === 'number' ? same(value, equals) : equals.some(one => same(value, one))
}

export function statusOf(rules: readonly StatusRule[], value: number): string {
  for (const rule of rules) if (fits(rule, value)) return rule.status
  return 'OK'
}
