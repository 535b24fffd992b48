// Values on a link: a missing one and a zero are distinct (X34), and each has one wire unit as long as that can represent it (X35).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Engine } from '../../../src/pipeline/compress'
import type { Fact } from '../../../src/pipeline/fact'
import { Receiver } from '../../../src/pipeline/receiver'
import { wireUnits } from '../../../src/units/wire'
import { ALPHABET } from '../../../src/wire/base62'
import { decoded, encoder, fact, T0 } from './pipeline-link-world'
import { units } from './units'

/** The first sensor of a body by the rules of the C decoders: unit and value as 32-bit fixed point; null where they refuse it. */
function cDecoder(body: string): { unit: string; scaled: number } | null {
  const cut = /^[^|]*\|([^>]+)>[^.]*\.([^:]+):([^|]+)/.exec(body)
  if (!cut || !/^-?[0-9a-zA-Z]+$/.test(cut[3]!)) return null
  let n = 0
  for (const c of cut[3]!.replace('-', '')) n = (Math.imul(n, 62) + ALPHABET.indexOf(c)) >>> 0
  return { unit: cut[2]!, scaled: cut[3]!.startsWith('-') ? -n | 0 : n | 0 }
}

test('no value, and a zero with status ERROR, are distinct in FULL and DIFF; C decoders read 0 for both (X34)', () => {
  const sender = encoder({ diffBase: 'last' })
  const receiver = new Receiver({ units })
  const status = (value: number | null, k: number): Fact => {
    const made = fact(T0 + k, [value, 1], 'D', 'A')
    made.sensors[0]!.status = 'ERROR'
    return made
  }
  const values = [null, 0, null, -1.5, 0, 0, null, null]
  const cmds = values.map((value, k) => {
    const sent = status(value, k)
    const { bytes, cmd } = sender.encode(sent)
    assert.deepEqual(decoded(receiver, bytes), sent, `after ${String(value)}`)
    return cmd
  })
  assert.deepEqual(cmds, [0x3f, 0xaa, 0xaa, 0xaa, 0xaa, 0x7f, 0xaa, 0x7f])
  for (const [value, scaled] of [
    [null, 0],
    [0, 0],
    [-1.5, -15_000],
  ] as const) {
    const body = encoder().encode(status(value, 0)).bytes.subarray(13, -3).toString()
    assert.deepEqual(cDecoder(body.slice(body.indexOf(';') + 1)), { unit: '100', scaled }, body)
  }
  // the text alone is ambiguous: a peer that pads a zero with status OK means 0
  const padded = new Engine(null, { units }).decompress('D.1.AAAAAAPo|a>K.K:00|b>E.K:00|')
  assert.deepEqual([padded.s1_v, padded.s2_v], [0, null])
})

test('a wire unit stays when the magnitude alternates, and each value is the same in every run (X35)', () => {
  for (const precision of [4, 8, 9]) {
    const options = { units: wireUnits(), precision, diffBase: 'last' as const }
    const long = encoder(options)
    const receiver = new Receiver(options)
    const tokens: string[] = []
    const small = precision === 4 ? 1e-4 : 1e-6
    for (const [k, value] of [3, small / 7, 30.1234, 0, null, small / 7, 1000 / 3, -2.5, 0.1 + 0.2].entries()) {
      const sent = fact(T0 + k, [value], 'D', 'A')
      if (k === 7) sent.sensors[0]!.status = 'WARN'
      const got = decoded(receiver, long.encode(sent).bytes).sensors[0]!
      const [meta] = receiver.template(42, 1)!.slots!
      tokens.push(meta!.slice(meta!.indexOf('.') + 1))
      // a restarted gateway sends the same packet again: equal to the bit, so that it is recognized
      assert.deepEqual(got, decoded(new Receiver(options), encoder(options).encode(sent).bytes).sensors[0]!)
      if (value) assert.ok(Math.abs(got.value! / value - 1) <= 1e-3, `${got.value} for ${value}`)
    }
    assert.equal(tokens[0], '100')
    assert.match(tokens[1]!, /^[a-z]A$/)
    assert.deepEqual(tokens.slice(2), Array(7).fill(tokens[1]), 'chosen again only where it must')
  }
})

test('a wire unit that can no longer represent a value is replaced (X35)', () => {
  const options = { units: wireUnits(), diffBase: 'last' as const }
  const sender = encoder(options)
  const receiver = new Receiver(options)
  for (const [k, value] of [1e-15, 1e3, 2e9, 1e-15].entries()) {
    const got = decoded(receiver, sender.encode(fact(T0 + k, [value], 'D', 'A')).bytes).sensors[0]!.value!
    assert.ok(Math.abs(got / value - 1) <= 1e-3, `${got} for ${value}`)
  }
})
