// Frames of one template, and a receiver for them.
import assert from 'node:assert/strict'
import type { Fact } from '../../../src/pipeline/fact'
import { type Received, Receiver } from '../../../src/pipeline/receiver'
import { FRAME_OVERHEAD, sealFrame, writeHeader } from '../../../src/wire/frame'
import { ManualClock } from '../../lib/manual'
import { units } from './units'

export const T0 = 1_710_000_000_000
export const clock = new ManualClock(T0 + 500)
export const receiver = (options = {}): Receiver => new Receiver({ units, clock, ...options })

export function frame(
  cmd: number,
  tid: number,
  ts: number,
  body: string | Uint8Array,
  aid = 42,
  key?: Uint8Array,
): Buffer {
  const bytes = Buffer.from(body as string)
  const out = Buffer.alloc(FRAME_OVERHEAD + bytes.length)
  const start = writeHeader(out, 0, cmd, aid, tid, ts)
  out.set(bytes, start)
  sealFrame(out, 0, start, start + bytes.length, key)
  return out
}
export const full = (ts: number, value: string, id = 'a'): Buffer => {
  const token = Buffer.alloc(6)
  token.writeUIntBE(ts, 0, 6)
  return frame(0x3f, 1, ts, `42;D.1.${token.toString('base64url')}|${id}>K.K:${value}|b>K.K:1|`)
}
export const diff = (ts: number, value: string): Buffer =>
  frame(0xaa, 1, ts, Buffer.concat([Buffer.of(2, value.length), Buffer.from(value)]))
export const heart = (ts: number): Buffer => frame(0x7f, 1, ts, '')
export const value = (got: Received): number | null => {
  assert.equal(got.kind, 'fact', JSON.stringify(got))
  return (got as { fact: Fact }).fact.sensors[0]!.value
}
export const code = (got: Received): string => (got.kind === 'error' ? got.code : 'fact')
