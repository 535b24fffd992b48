// What an uplink packs again: after the exchange asked for it, and after an upstream said that it could not use a frame.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Shipment } from '../../../src/gateway/uplink/ledger'
import { type Payload, Records } from '../../../src/gateway/uplink/records'
import { OsError } from '../../../src/lib/errors'
import { silentLogger } from '../../../src/lib/logger'
import type { Fact } from '../../../src/pipeline/fact'

const fact = (seq: number): Fact => ({ id: `d${seq}`, state: 'ONLINE', tRaw: seq, aid: 7, sensors: [] })
const refusal = (seq: number) => ({ reason: 'NEED_FULL', aid: 7, tid: 1, ts: seq, crc16: 0 }) as never

/** Records over a log that has every seq but `gone`; `bytes` of a packet, or the error that packing ends with. */
function world({ gone = new Set<number>(), largest = 100 } = {}) {
  const errors: string[] = []
  const warnings: string[] = []
  const did: string[] = []
  const state = { bytes: 50, error: undefined as Error | undefined, allowed: true, wanted: true }
  const records = new Records({
    log: {
      reader: (from: number) => ({
        next: () => ({ seq: gone.has(from) ? from + 1 : from, medium: 'udp', fact: fact(from) }),
      }),
    } as never,
    feed: {
      right: (record: unknown) => record,
      wants: () => state.wanted,
      noteAside: (seq: number, limit: number) => did.push(`aside ${seq} ${limit}`),
      done: ({ seq }: { seq: number }) => did.push(`done ${seq}`),
    } as never,
    packer: {
      refusedSeq: (refused: { ts: number }) => refused.ts,
      allowed: () => state.allowed,
      unanswered: (aid: number) => did.push(`unanswered ${aid}`),
      sent: (_: Fact, packet: { size: number }, seq: number) => did.push(`sent ${seq} ${packet.size}`),
      sizeOf: () => state.bytes,
      packAgain: () => {
        if (state.error) throw state.error
        return { size: state.bytes, bytes: new Uint8Array(state.bytes) }
      },
    } as never,
    session: {} as never,
    identity: { assigned: true, assignedId: 5 } as never,
    logger: {
      ...silentLogger,
      error: (line: string) => void errors.push(line),
      warn: (line: string) => void warnings.push(line),
    },
    largest: () => largest,
    keyGone: () => did.push('key gone'),
  })
  const shipment = (seq: number): Shipment<Payload> =>
    ({ seq, payload: { fact: fact(seq), plain: false, packet: { size: 1 } } }) as never
  return { records, state, errors, warnings, did, shipment }
}

test('a refused record goes again three times, oldest first, and waits for its key', () => {
  const { records, state, did } = world()
  records.refused(refusal(1))
  records.refused(refusal(2))
  state.allowed = false
  assert.equal(records.takeRefused(100), null)
  state.allowed = true
  assert.equal(records.takeRefused(100)!.packet.size, 50)
  assert.equal(records.takeRefused(100)!.shipment, null)
  assert.equal(records.takeRefused(100), null)
  assert.deepEqual(did, ['sent 1 50', 'sent 2 50'])
  for (let k = 0; k < 5; k++) records.refused(refusal(1))
  let times = 0
  while (records.takeRefused(100)) times++
  assert.equal(times, 2, 'three times in all')
  records.refused(refusal(0))
  assert.equal(records.takeRefused(100), null, 'a frame of no record')
  assert.deepEqual(records.counters, { refused: 0, again: 4 })
})

test('refused records that wait, and their tries, are bounded: the oldest goes and is counted', () => {
  const { records, did } = world()
  for (let seq = 1; seq <= 1024; seq++) records.refused(refusal(seq))
  assert.equal(records.counters.refused, 0)
  records.refused(refusal(1025))
  assert.equal(records.counters.refused, 1)
  let times = 0
  while (records.takeRefused(100)) times++
  assert.deepEqual([times, did[0], did.at(-1)], [1024, 'sent 2 50', 'sent 1025 50'])
  // of 1024 the tries are known; record 1 is counted anew, and by that 2
  for (let k = 0; k < 4; k++) for (const seq of [1025, 1, 2]) records.refused(refusal(seq))
  did.length = 0
  while (records.takeRefused(100));
  assert.deepEqual(
    [1025, 1, 2].map(seq => did.filter(line => line === `sent ${seq} 50`).length),
    [2, 3, 3],
  )
})

test('a refused record that is gone from the log is passed; one that cannot be packed is counted and said', () => {
  const { records, state, errors, warnings, did } = world({ gone: new Set([1]) })
  records.refused(refusal(1))
  assert.equal(records.takeRefused(100), null)
  assert.deepEqual([records.counters, errors], [{ refused: 0, again: 0 }, []])
  state.error = new OsError('BAD_ARGUMENT', 'no unit fits')
  records.refused(refusal(2))
  assert.equal(records.takeRefused(100), null)
  assert.deepEqual(errors, ['record 2 of d2 cannot be sent again: no unit fits'])
  state.error = undefined
  // too large here: another uplink carries 100 bytes, none carries 101
  for (const [seq, bytes] of [
    [3, 101],
    [4, 100],
    [5, 100],
    [6, 61],
    [7, 60],
  ] as const) {
    state.bytes = bytes
    records.refused(refusal(seq))
    records.takeRefused(60)
  }
  assert.deepEqual(did, ['aside 4 60', 'aside 5 60', 'aside 6 60', 'sent 7 60'])
  assert.deepEqual(records.counters, { refused: 2, again: 1 })
  assert.equal(warnings.length, 1, 'said once')
})

test('what the exchange asks for again: nothing that another uplink has, nothing in plaintext, and counted where it cannot', () => {
  const { records, state, errors, did, shipment } = world()
  state.wanted = false
  assert.equal(records.again(shipment(1), 100), null)
  assert.deepEqual(did, [])
  state.wanted = true
  state.allowed = false
  const held = shipment(2)
  assert.equal(records.again(held, 100), null)
  assert.deepEqual([did.splice(0), held.payload.packet], [['unanswered 7', 'key gone'], null])
  state.allowed = true
  assert.equal(records.again(held, 100)!.length, 50)
  assert.deepEqual(did.splice(0), ['sent 0 50'], 'what it was built on was forgotten before')
  assert.equal(records.again(shipment(3), 40), null)
  assert.deepEqual([did.splice(0), errors], [['unanswered 7', 'aside 3 40', 'done 3'], []])
  state.bytes = 200
  assert.equal(records.again(shipment(4), 40), null)
  assert.deepEqual(did, ['unanswered 7', 'done 4'])
  assert.deepEqual(errors, ['record 4 of d4 cannot be sent again: 200 bytes, the link carries 40'])
  assert.deepEqual(records.counters, { refused: 1, again: 0 })
})
