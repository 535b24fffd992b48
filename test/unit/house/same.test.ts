// The comparison of two logs notices the differences it is for.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { kills, type LoggedFact } from '../../lib/gateway'
import { assertSame } from '../../lib/same'

const fact = (t_raw: number, value = t_raw): LoggedFact => ({
  id: 'd',
  t_raw,
  s1_id: 's',
  s1_s: 'OK',
  s1_u: 'K',
  s1_v: value,
})
const sent = Array.from({ length: 5000 }, (_, k) => fact(k + 1))
const refused = (got: LoggedFact[], what: RegExp) => assert.throws(() => assertSame(sent, got), what)

test('a fact that is missing, unknown, or of another value is noticed', () => {
  assertSame(sent, [...sent].reverse())
  refused(sent.slice(1), /missing/)
  refused([...sent, fact(9999)], /unknown/)
  refused([fact(1, 2), ...sent.slice(1)], /d 1 s: 1 became 2/)
})

test('a fact that occurs twice is noticed, unless 4096 of its device are between: then its values must be equal', () => {
  const again = (after: number, copy: LoggedFact): LoggedFact[] => [...sent.slice(0, after), copy, ...sent.slice(after)]
  refused(again(2, fact(1)), /'d 1'/)
  refused(again(4096, fact(1)), /'d 1'/)
  assertSame(sent, again(4097, fact(1)))
  refused(again(4097, fact(1, 2)), /d 1 s: 1 became 2/)
})

test('facts a killed sender could not keep are not compared, and no other is left out', () => {
  kills.push(5010)
  try {
    // a burst's facts get rising times: the last of them are later than the kill
    assertSame(sent, [...sent, fact(5005), fact(5110)])
    refused([...sent, fact(5111)], /unknown/)
    refused(sent.slice(1), /missing/)
  } finally {
    kills.pop()
  }
})
