// A fact, its encoder and its decoder, for tests of one link.
import assert from 'node:assert/strict'
import type { Fact } from '../../../src/pipeline/fact'
import type { Receiver } from '../../../src/pipeline/receiver'
import { UplinkEncoder, type UplinkEncoderOptions } from '../../../src/pipeline/sender'
import { ManualClock } from '../../lib/manual'
import { units } from './units'

export const T0 = 1_710_000_000_000

export const fact = (tRaw: number, values: (number | null)[], id = 'D', unit = 'K'): Fact => ({
  id,
  state: 'ONLINE',
  tRaw,
  aid: 42,
  sensors: values.map((value, k) => ({ id: `s${k}`, status: value === null ? 'ERROR' : 'OK', unit, value })),
})
export const encoder = (options: Partial<UplinkEncoderOptions> = {}): UplinkEncoder =>
  new UplinkEncoder({ aid: 42, units, clock: new ManualClock(), ...options })
export const decoded = (receiver: Receiver, bytes: Uint8Array): Fact => {
  const got = receiver.receive(bytes)
  assert.equal(got.kind, 'fact', JSON.stringify(got))
  return (got as { fact: Fact }).fact
}
