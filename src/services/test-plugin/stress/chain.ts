// The path of an encoded packet: none (core), decoded and compared in this process (e2e_inproc), or first sent over UDP on
// the loopback interface (e2e_loopback). A packet that does not return within two seconds is lost and counts as failed; the
// number in flight is limited to what the kernel's buffers hold.

import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { ucum } from '../cores'
import { Receiver, readU32 } from '../program'
import type { ChainMode } from './options'
import { isSame } from './readings'

interface Sent {
  readonly packet: Uint8Array
  /** performance.now() before it was encoded */
  readonly startedAt: number
  readonly expected: readonly number[]
}

/** Called once per packet, with the duration of the chain or the error. */
export interface Tally {
  arrived(ms: number): void
  failed(why: string): void
}

interface Chain {
  /** Takes a packet; resolves when the next may follow. */
  take(sent: Sent): void | Promise<void>
  /** Waits for the packets in flight. */
  finish(): Promise<void>
}

/** `precision`: decimals on the wire, the same at both ends. */
export async function openChain(mode: ChainMode, tally: Tally, precision: number): Promise<Chain> {
  const finish = async (): Promise<void> => undefined
  if (mode === 'core') return { take: ({ startedAt }) => tally.arrived(performance.now() - startedAt), finish }
  if (mode === 'e2e_inproc') return { take: judgeFor(tally, precision), finish }
  return openLoopback(tally, precision)
}

function judgeFor(tally: Tally, precision: number): (sent: Sent) => void {
  const receiver = new Receiver({ units: ucum, precision })
  return ({ packet, startedAt, expected }) => {
    const got = receiver.receive(packet)
    if (got.kind === 'error') tally.failed(`${got.code}: ${got.message}`)
    else if (!isSame(got.fact.sensors, expected, precision)) tally.failed('decoded values differ from what was sent')
    else tally.arrived(performance.now() - startedAt)
  }
}

const WINDOW = 32
const LOST_MS = 2000

/** AID and time: no two packets of a run share both. */
const keyOf = (packet: Uint8Array): string =>
  packet.length < 13 ? '' : `${readU32(packet, 2)}.${packet[7]}.${packet[8]}.${readU32(packet, 9)}`

async function openLoopback(tally: Tally, precision: number): Promise<Chain> {
  const judge = judgeFor(tally, precision)
  const underWay = new Map<string, Sent>()
  let wake: () => void = () => undefined
  const [far, near] = [createSocket('udp4'), createSocket('udp4')]
  await Promise.all([far, near].map(listening))
  far.on('message', packet => {
    const key = keyOf(packet)
    const sent = underWay.get(key)
    if (!sent) return // late: already counted as lost
    underWay.delete(key)
    judge({ ...sent, packet })
    wake()
  })
  const refused = (key: string, error: Error): void => {
    if (underWay.delete(key)) tally.failed(`not sent: ${error.message}`)
    wake()
  }
  /** Waits until at most `most` are in flight; without progress for two seconds they are lost. */
  const settle = async (most: number): Promise<void> => {
    while (underWay.size > most) {
      const before = underWay.size
      await new Promise<void>(resolve => {
        const timer = setTimeout(resolve, LOST_MS)
        wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
      if (underWay.size < before) continue
      for (let n = underWay.size; n > 0; n--) tally.failed('lost on the loopback')
      underWay.clear()
    }
  }
  const { port } = far.address()
  return {
    take: sent => {
      const key = keyOf(sent.packet)
      underWay.set(key, sent)
      near.send(sent.packet, port, '127.0.0.1', error => error && refused(key, error))
      return underWay.size >= WINDOW ? settle(WINDOW / 2) : undefined
    },
    finish: async () => {
      await settle(0)
      far.close()
      near.close()
    },
  }
}

async function listening(socket: Socket): Promise<void> {
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  socket.on('error', () => undefined) // the callback of send() gets its error
}
