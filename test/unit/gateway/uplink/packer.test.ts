// What a packer makes of items: their packets, a second packet after a loss or a refusal, and why an item has none.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Item } from '../../../../src/gateway/uplink/lane'
import { Packer } from '../../../../src/gateway/uplink/packer'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import type { Fact } from '../../../../src/pipeline/fact'

const item = (seq: number, { local = false, aid = 7, again = false } = {}): Item => ({
  ...{ seq, local, again, round: 0, done: false, plain: false, packet: { size: 1 } as never },
  fact: { id: `d${seq}`, state: 'ONLINE', tRaw: seq, aid, sensors: [] },
})

/** A packer whose packets have `bytes`, or that fails with the error. */
function world({ largest = 100 } = {}) {
  const errors: string[] = []
  const warnings: string[] = []
  const did: string[] = []
  const state = { bytes: 50, error: undefined as Error | undefined, allowed: true, ready: true, cmd: 0x3f }
  const identity = { assigned: true, assignedId: 5 }
  const packed = () => {
    if (state.error) throw state.error
    return { size: state.bytes, bytes: new Uint8Array(state.bytes), cmd: state.cmd }
  }
  const packer = new Packer({
    encoders: {
      allowed: () => state.allowed,
      ready: (aid: number) => {
        did.push(`ready ${aid}`)
        return state.ready
      },
      unanswered: (aid: number) => did.push(`unanswered ${aid}`),
      sent: (_: Fact, packet: { size: number }, seq: number) => did.push(`sent ${seq} ${packet.size}`),
      acknowledged: (aid: number) => did.push(`acknowledged ${aid}`),
      sizeOf: () => state.bytes,
      encode: ({ aid }: Fact, full: boolean, limit: number) => {
        did.push(`encode ${aid}${full ? ' full' : ''}`)
        const packet = packed()
        if (packet.size > limit) throw new OsError('PACKET_TOO_LARGE', 'too large')
        return packet
      },
      encodeAgain: packed,
    } as never,
    session: {
      mayGo: ({ aid }: Fact) => aid !== 13,
      sentPlain: () => did.push('plain'),
      ackedPlain: () => did.push('plain acked'),
    } as never,
    identity: identity as never,
    logger: {
      ...silentLogger,
      error: (line: string) => void errors.push(line),
      warn: (line: string) => void warnings.push(line),
    },
    largest: () => largest,
  })
  return { packer, state, identity, errors, warnings, did }
}

test('an own fact is sent under the current id, a relayed one as FULL under its own id; each reports plaintext to the session', () => {
  const { packer, state, did } = world()
  const own = item(1, { local: true, aid: 99 })
  packer.pack(own, 100)
  const relayed = item(2)
  state.cmd = 0x40
  packer.pack(relayed, 100)
  assert.deepEqual([own.fact.aid, own.plain, own.packet!.size, relayed.fact.aid], [5, true, 50, 7])
  packer.acked(own)
  assert.deepEqual(did.slice(0, 3), ['encode 5', 'sent 1 50', 'plain'])
  assert.ok(did.includes('encode 7 full') && did.at(-1) === 'acknowledged 5')
})

test('a record is sent when its TIDs are stored, which only own AIDs wait for, and its session allows it', () => {
  const { packer, state, identity, did } = world()
  const may = (medium: string, aid: number): boolean => packer.mayGo({ medium, fact: item(1, { aid }).fact } as never)
  assert.deepEqual([may('local', 99), may('udp', 7), may('udp', 5), may('udp', 13)], [true, true, true, false])
  assert.deepEqual(did, ['ready 5', 'ready 5'])
  state.ready = false
  assert.deepEqual([may('local', 5), may('udp', 7), may('udp', 5)], [false, true, false])
  state.ready = true
  identity.assigned = false
  assert.deepEqual([may('local', 5), may('udp', 7)], [false, true], 'own facts wait for an id')
})

test('a refused record is sent again as FULL under the current id, and a second refusal is recognised; a retransmit keeps its id', () => {
  const { packer, did } = world()
  const [refused, unanswered] = [item(1, { local: true, aid: 99, again: true }), item(2, { local: true, aid: 99 })]
  packer.pack(refused, 100)
  packer.packAgain(unanswered, 100)
  assert.deepEqual([refused.fact.aid, unanswered.fact.aid], [5, 99])
  assert.deepEqual(did, ['sent 1 50', 'plain', 'sent 0 50'])
  assert.deepEqual(packer.counters, { refused: 0, again: 1 })
})

test('a fact too large here, but not for another uplink, is oversized and logged once; everything else is refused and counted', () => {
  const { packer, state, errors, warnings } = world()
  state.error = new OsError('BAD_ARGUMENT', 'no unit fits')
  assert.equal(packer.pack(item(1), 60), 'refused')
  assert.equal(packer.packAgain(item(2), 60), 'refused')
  state.error = undefined
  // another uplink carries 100 bytes, none carries 101
  const as = (bytes: number): unknown[] => {
    state.bytes = bytes
    return [packer.pack(item(3), 60), packer.packAgain(item(4), 60)].map(one =>
      typeof one === 'string' ? one : one.size,
    )
  }
  assert.deepEqual([101, 100, 61, 60].map(as), [
    ['refused', 'refused'],
    ['oversized', 'oversized'],
    ['oversized', 'oversized'],
    [60, 60],
  ])
  assert.deepEqual(errors, [
    'record 1 of d1 cannot be sent: no unit fits',
    'record 2 of d2 cannot be sent again: no unit fits',
    'record 3 of d3 cannot be sent: too large',
    'record 4 of d4 cannot be sent again: 101 bytes, the link carries 60',
  ])
  assert.deepEqual(packer.counters, { refused: 4, again: 0 })
  assert.equal(warnings.length, 1)
})

test('after an item times out nothing depends on its packet, and it is sent in plaintext only where that is allowed', () => {
  const { packer, state, did } = world()
  const one = item(1)
  state.allowed = false
  assert.equal(packer.unanswered(one), false)
  assert.deepEqual([did.splice(0), one.packet], [['unanswered 7'], null])
  state.allowed = true
  assert.equal(packer.unanswered(one), true)
  packer.packAgain(one, 100)
  assert.deepEqual(did, ['sent 0 50'])
  packer.acked(one)
  assert.deepEqual(did, ['sent 0 50'], 'of a packet sent twice no template is known')
})
