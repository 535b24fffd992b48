// Both sides of the delivery exchange for tests: a sender that records its events, and answers as bytes.
import assert from 'node:assert/strict'
import { SequenceCounter } from '../../src/protocol/control'
import { DeliveryReceiver, DeliverySender } from '../../src/protocol/delivery'
import { crc16 } from '../../src/wire/crc'

export const hex = (b: Uint8Array | null): string => (b ? Buffer.from(b).toString('hex') : 'null')
export const bytes = (h: string): Uint8Array => new Uint8Array(Buffer.from(h, 'hex'))

export interface Rig {
  sender: DeliverySender<number>
  acked: number[]
  resent: [token: number, resends: number][]
}

export function rig({
  gone = new Set<number>(),
  ...options
}: Record<string, unknown> & { gone?: Set<number> } = {}): Rig {
  const acked: number[] = []
  const resent: [number, number][] = []
  const seq = new SequenceCounter()
  let epoch = 0x11223344
  const sender = new DeliverySender<number>({
    maxPacket: 200,
    nextSeq: () => seq.next(),
    randomEpoch: () => epoch++,
    onAcked: token => acked.push(token),
    onResend: (token, resends) => {
      resent.push([token, resends])
      return gone.has(token) ? null : Uint8Array.of(0xf0, token)
    },
    ...options,
  })
  return { sender, acked, resent }
}

/** A rig whose link is up, with the peer's commit time. */
export function open(options: Record<string, unknown> & { gone?: Set<number> } = {}, commitMs = 100): Rig {
  const r = rig(options)
  const probe = r.sender.poll(0)!
  const reply = new DeliveryReceiver({ ackCommitMs: commitMs }).probeReply(probe)!
  assert.equal(r.sender.onAnswer(reply, 0), true)
  assert.equal(r.sender.mode, 'acked')
  return r
}

export const answer = (epoch: number, cum: number, bitmap = 0): Uint8Array => {
  const b = Buffer.alloc(17)
  b[0] = 5
  b.writeUInt32BE(epoch, 3)
  b.writeUInt32BE(cum, 7)
  b.writeUInt32BE(bitmap, 11)
  b.writeUInt16BE(crc16(b, 0, 15), 15)
  return new Uint8Array(b)
}
