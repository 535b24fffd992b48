// An allocator with quotas, and the requests of devices to it.
import { createLogger } from '../../../../src/lib/logger'
import { parseIdAssign, parseIdPool, parseNackReason } from '../../../../src/protocol/control'
import { HandshakeManager } from '../../../../src/protocol/handshake/manager'
import { IdAllocator, type IdAllocatorOptions } from '../../../../src/protocol/ids/allocator'
import type { IdStore } from '../../../../src/protocol/ids/id-store'
import { IdQuotas } from '../../../../src/protocol/ids/quota'
import { COMMAND } from '../../../../src/wire/commands'
import { ManualClock, memoryIdStore } from '../../../lib/manual'

export function server(options: IdAllocatorOptions = {}, store: IdStore = memoryIdStore()) {
  const clock = new ManualClock(1_710_000_000_000)
  const lines: string[] = []
  const now = (): number => Math.floor(clock.wall() / 1000)
  const allocator = new IdAllocator(options, { store, now, mono: () => clock.mono() })
  const quotas = new IdQuotas(allocator, clock, createLogger({ write: line => void lines.push(line) }))
  const manager = new HandshakeManager({}, { clock, allocator: quotas })
  let seq = 0
  const ask = (bytes: Uint8Array, from: string): Uint8Array | null => manager.classifyAndDispatch(bytes, from).response
  const request = (meta: object, n = ++seq & 0xffff): Buffer =>
    Buffer.concat([Buffer.from([COMMAND.ID_REQUEST, n >> 8, n & 255]), Buffer.from(JSON.stringify(meta))])
  const poolRequest = (count: number, n = ++seq & 0xffff): Buffer =>
    Buffer.from([COMMAND.ID_POOL_REQ, n >> 8, n & 255, count >> 8, count & 255, 0x7b, 0x7d])
  const ack = (of: Uint8Array, from: string): void => {
    manager.classifyAndDispatch(Buffer.from([COMMAND.HANDSHAKE_ACK, of[1]!, of[2]!]), from)
  }
  /** the id of a device, or the reason why it got none */
  const id = (meta: object, from: string): number | string | null => {
    const answer = ask(request(meta), from)
    if (!answer) return null
    return answer[0] === COMMAND.ID_ASSIGN ? parseIdAssign(answer).assignedId : parseNackReason(answer)
  }
  const pool = (count: number, from: string): number[] | string | null => {
    const answer = ask(poolRequest(count), from)
    if (!answer) return null
    return answer[0] === COMMAND.ID_POOL_RES ? parseIdPool(answer) : parseNackReason(answer)
  }
  return { clock, allocator, quotas, manager, ask, request, poolRequest, ack, id, pool, lines }
}
