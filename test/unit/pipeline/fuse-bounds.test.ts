// What Fusion remembers of the senders it receives: limited in AIDs and in bytes, and what a stop leaves for the next
// run.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fusion, type FusionOptions } from '../../../src/pipeline/fuse'
import { SlotMetaCache } from '../../../src/pipeline/slot-meta-cache'
import { readFull, SlotHistory, shapeOf } from '../../../src/pipeline/slots'
import { ManualClock } from '../../lib/manual'
import { peerFrame } from '../../lib/peer'
import { MemFiles } from '../log/memfiles'
import { units } from './units'

const T0 = 1_710_000_000_000
const TEXT = 'D.1.AAAAAAAA|a>K.K:1|'
const metas = new SlotMetaCache('ucum', units)
const weightOf = (text: string): number => {
  const read = readFull(text)
  const history = new SlotHistory(shapeOf(read))
  history.fill(read.sensors, (meta, plain) => metas.of(meta, plain))
  return history.weight
}
const WEIGHT = weightOf(TEXT)
const clock = new ManualClock(T0)
const fusion = (options: FusionOptions = {}): Fusion => new Fusion(null, { units, clock, localId: 1, ...options })
const full = (aid: number, tid = 1, text = TEXT): Buffer => peerFrame(0x3f, [aid], tid, T0, `${aid};${text}`)
const heart = (aid: number, tid = 1): Buffer => peerFrame(0x7f, [aid], tid, T0 + 5, '')
const knows = (one: Fusion, aid: number, tid = 1): boolean => one.decompress(heart(aid, tid)).error === undefined

test('the templates of 4,096 AIDs are remembered; the quarter heard longest ago is evicted', () => {
  const one = fusion()
  for (let aid = 2; aid <= 4097; aid++) assert.equal(one.decompress(full(aid)).__packet_meta__.template_learned, true)
  assert.equal(one.weight, 4096 * WEIGHT)
  assert.equal(knows(one, 2), true)
  one.decompress(full(5000))
  assert.equal(one.weight, (4096 - 1024 + 1) * WEIGHT)
  assert.deepEqual([knows(one, 2), knows(one, 5000)], [true, true])
  assert.equal(knows(one, 3), false)
})

test('templates stay within their bytes: complete AIDs are evicted, and of a single one all but the last learned', () => {
  const one = fusion({ maxBytes: 3 * WEIGHT })
  for (const aid of [2, 3, 4]) one.decompress(full(aid))
  assert.equal(one.weight, 3 * WEIGHT, 'just full')
  one.decompress(full(2))
  assert.equal(one.weight, 3 * WEIGHT, 'learned again, it uses no more memory')
  one.decompress(full(5))
  assert.equal(one.weight, 3 * WEIGHT)
  assert.deepEqual([knows(one, 3), knows(one, 4), knows(one, 2), knows(one, 5)], [false, true, true, true])

  const alone = fusion({ maxBytes: 3 * WEIGHT })
  for (const tid of [1, 2, 3]) alone.decompress(full(2, tid))
  assert.equal(alone.weight, 3 * WEIGHT)
  alone.decompress(full(2, 4))
  assert.equal(alone.weight, WEIGHT)
  assert.deepEqual(
    [1, 2, 3, 4].map(tid => knows(alone, 2, tid)),
    [false, false, false, true],
  )
  // a longer text under the same TID
  const long = `${TEXT}b>K.K:1|`
  alone.decompress(full(2, 4, long))
  assert.equal(alone.weight, weightOf(long))
})

test('after a stop the received templates are restored with their bytes; those received under our own AID are not stored', () => {
  const files = new MemFiles()
  const options = { registryDir: '/r', files }
  const first = fusion(options)
  first.runEngine(`1;${TEXT}`)
  first.decompress(full(2))
  first.decompress(full(2, 7))
  first.decompress(full(1, 9))
  first.stop()
  const second = fusion(options)
  assert.equal(second.weight, 0, 'nothing is read before it is needed')
  assert.deepEqual([knows(second, 2), knows(second, 2, 7), knows(second, 1, 9)], [true, true, false])
  assert.equal(second.weight, 2 * WEIGHT)
  assert.equal(second.runEngine(`1;${TEXT}`)[0], 0x7f, 'our sent packets are forwarded')
  const third = fusion(options)
  assert.equal(knows(third, 2), false, 'the second was not stopped')
  assert.equal(third.weight, 0)
})

test('a text as bytes gives the same packet; with a key it gives the secure one', () => {
  const [a, b] = [fusion(), fusion()]
  for (const text of [`1;${TEXT}`, '1;D.1.AAAAAAAA|a>K.K:2|@w7w', `1;${TEXT}`])
    assert.deepEqual(b.runEngine(Buffer.from(text)), a.runEngine(text))
  const key = Buffer.alloc(32, 3)
  const keys = {
    outbound: (aid: number) => (aid === 1 ? key : null),
    inbound: (aid: number) => (aid === 1 ? key : null),
  }
  const secret = fusion({ keys })
  const packet = secret.runEngine(`1;${TEXT}`)
  assert.equal(packet[0], 0x40)
  assert.equal(fusion().decompress(packet).error, 'Missing secure key for aid=1')
  assert.equal(fusion({ keys, localId: 5 }).decompress(packet).s1_v, 0.0001)
  assert.equal(fusion().decompress(packet, key).s1_v, 0.0001)
})

test('TIDs end at the configured limit, and a larger one in a file is not used', () => {
  const files = new MemFiles()
  const first = fusion({ registryDir: '/r', files, maxTid: 3 })
  const tids = ['A', 'B', 'C', 'D'].map(id => first.runEngine(`1;${id}.1.AAAAAAAA|a>K.K:1|`)[6])
  assert.deepEqual(tids, [1, 2, 3, 1])
  first.stop()
  const second = fusion({ registryDir: '/r', files, maxTid: 2 })
  assert.deepEqual(second.runEngine('1;B.1.AAAAAAAA|a>K.K:1|').subarray(0, 7), Buffer.of(0x7f, 1, 0, 0, 0, 1, 2))
  assert.equal(second.runEngine('1;C.1.AAAAAAAA|a>K.K:1|')[0], 0x3f)
})
