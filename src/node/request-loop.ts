// Runs a request loop of the protocol over one-shot UDP exchanges: each send is a separate exchange that waits for its
// reply. Returns null when the loop ends without success; `onFailure` gets the reason of an exchange without reply, and of a
// refusal.
import { OsError } from '../lib/errors'
import { parseNackReason } from '../protocol/control'
import { COMMAND } from '../wire/commands'
import type { UdpRequest } from './types'

export type RequestLoop<T> = (
  send: (packet: Uint8Array) => void,
  recv: (seconds: number) => Promise<Uint8Array | null>,
) => Promise<T | null>

export async function askOverUdp<T>(
  request: UdpRequest,
  { host, port, timeoutMs }: { host: string; port: number; timeoutMs: number },
  onFailure: (error: OsError) => void,
  loop: RequestLoop<T>,
): Promise<T | null> {
  const replies: Uint8Array[] = []
  let wake = (): void => undefined
  const send = (packet: Uint8Array): void => {
    // request() never rejects: a failure is passed to onFailure and the reply is null
    void request(host, port, packet, timeoutMs, undefined, onFailure).then(reply => {
      if (reply) replies.push(reply)
      if (reply?.[0] === COMMAND.HANDSHAKE_NACK)
        onFailure(new OsError('ID_ALLOC_FAILED', `${host}:${port} refused: ${parseNackReason(reply)}`))
      wake()
    })
  }
  const recv = async (seconds: number): Promise<Uint8Array | null> => {
    if (replies.length === 0)
      await new Promise<void>(resolve => {
        const timer = setTimeout(resolve, seconds * 1000)
        wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    return replies.shift() ?? null
  }
  return loop(send, recv)
}
