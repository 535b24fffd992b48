// An ISO-TP socket of a kernel that the test plays: its results, its incoming packets, and what it waits for.
import assert from 'node:assert/strict'
import type { PeerSocket } from '../../../../drivers/can/peer'
import { AGAIN, WRITABLE } from '../../../../src/native'

export class Kernel implements PeerSocket {
  readonly sent: string[] = []
  /** the results of send(), one after the other; after them: accepted */
  readonly answers: number[] = []
  readonly incoming: (string | number)[] = []
  pending = 0
  events = 0
  closed = false
  dropped = 0
  wake: (events: number) => void = () => undefined

  send(packet: Uint8Array): number {
    const answer = this.answers.shift() ?? packet.length
    if (answer >= 0) this.sent.push(Buffer.from(packet).toString())
    return answer
  }
  receive(slab: Uint8Array, lengths: Uint32Array): number {
    if (typeof this.incoming[0] !== 'string') return (this.incoming.shift() as number | undefined) ?? AGAIN
    const slot = slab.length / lengths.length
    let n = 0
    for (let next = this.incoming[0]; typeof next === 'string' && n < lengths.length; next = this.incoming[0]) {
      slab.set(Buffer.from(next), n * slot)
      lengths[n++] = next.length
      this.incoming.shift()
    }
    return n
  }
  error(): number {
    const { pending } = this
    this.pending = 0
    return pending
  }
  watch(events: number, wake: (events: number) => void): void {
    this.events = events
    this.wake = wake
  }
  rewatch(events: number): void {
    this.events = events
  }
  close(): void {
    this.closed = true
  }
  /** the packet being sent has arrived, or not */
  done(error = 0): void {
    assert.ok(this.events & WRITABLE, 'the end is not waited for')
    this.pending = error
    this.wake(WRITABLE)
  }
}
