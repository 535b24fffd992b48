// One request over a transport that may lose packets: sends immediately, repeats the same bytes every max(1, timeout/2) s,
// and returns the first received packet that `accept` recognises. A timeout returns null. Errors of the transport's functions
// are thrown to the caller.
import type { Clock } from '../../lib/clock'

/** Sends one packet; may wait. */
export type SendFn = (packet: Uint8Array) => unknown
/** Waits up to that many seconds for one packet; null or undefined if none arrived. */
export type RecvFn = (seconds: number) => Promise<Uint8Array | null | undefined> | Uint8Array | null | undefined

interface ExchangeOptions<Answer> {
  send: SendFn
  receive: RecvFn
  request: Uint8Array
  /** seconds */
  timeout: number
  clock: Clock
  sleep: (ms: number) => Promise<void>
  /** the answer's meaning, and the packet that confirms it; undefined if the packet is no answer to this request */
  accept: (packet: Uint8Array) => Accepted<Answer> | undefined
}

export interface Accepted<Answer> {
  readonly answer: Answer
  readonly reply?: Uint8Array | null
}

const SLICE_MS = 500
/** delay for a receive function that returns immediately without a packet */
const IDLE_MS = 10

export async function exchange<Answer>(options: ExchangeOptions<Answer>): Promise<Answer | null> {
  const { send, receive, request, timeout, clock, sleep, accept } = options
  const resendMs = Math.max(1, timeout / 2) * 1000
  const end = clock.mono() + timeout * 1000
  let sendAt = clock.mono()
  for (let now = clock.mono(); now < end; now = clock.mono()) {
    if (now >= sendAt) {
      await send(request)
      sendAt = now + resendMs
    }
    const slice = Math.min(SLICE_MS, end - now, Math.max(1, sendAt - now))
    const packet = await receive(slice / 1000)
    if (packet && packet.length > 0) {
      const accepted = accept(packet)
      if (accepted) return confirmed(accepted, send)
    } else if (clock.mono() - now < 1) await sleep(Math.min(slice, IDLE_MS))
  }
  return null
}

async function confirmed<Answer>({ answer, reply }: Accepted<Answer>, send: SendFn): Promise<Answer> {
  try {
    if (reply) await send(reply)
  } catch {
    // the answer has arrived; a peer without this confirmation loses nothing
  }
  return answer
}
