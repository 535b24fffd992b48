// Malicious senders, or a faulty bus: however many addresses, templates and long texts arrive, the stored part stays within
// its limits. Sizes are those of the counters and of the heap after a collection.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Fusion } from '../../src/pipeline/fuse'
import { Receiver } from '../../src/pipeline/receiver'
import { wireUnits } from '../../src/units/wire'
import { FRAME_OVERHEAD, sealFrame, writeHeader } from '../../src/wire/frame'
import { ManualClock } from '../lib/manual'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void
const heap = (): number => {
  gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const T0 = 1_710_000_000_000
const clock = new ManualClock(T0)
const units = wireUnits()
const TEXT = 24_000
const MAX_BYTES = 3 << 20
const BUDGET = 24 << 20

function full(aid: number, tid: number, ts: number, text: string): Buffer {
  const body = Buffer.from(`${aid};D.1.AY4j8UwA|${text}|`)
  const out = Buffer.alloc(FRAME_OVERHEAD + body.length)
  const start = writeHeader(out, 0, 0x3f, aid, tid, ts)
  out.set(body, start)
  sealFrame(out, 0, start, start + body.length)
  return out
}

/** Kinds of large texts, each a different one for every k. */
const KINDS: Record<string, (k: number) => string> = {
  'many sensors': k => `s${k}>K.K:1|${'a>K.K:1|'.repeat(TEXT / 8)}`,
  'long units': k => `a>K.u${k}${'x'.repeat(TEXT)}:1`,
  'long sensor ids': k => `${'i'.repeat(TEXT)}${k}>K.K:1`,
  'long messages': k => `a>K.K:1|@${'bWVzc2FnZQ'.repeat(TEXT / 10)}${k}`,
  'many short units': k => Array.from({ length: 600 }, (_, i) => `a>K.u${k}_${i}:1`).join('|'),
}

for (const [kind, text] of Object.entries(KINDS))
  test(`${kind} from many sources, and under all TIDs of one`, () => {
    const receiver = new Receiver({ units, clock, maxBytes: MAX_BYTES })
    const fusion = new Fusion(null, { units, clock, registryDir: null, localId: 1, maxBytes: MAX_BYTES })
    const before = heap()
    for (let k = 0; k < 100; k++) {
      const packet = full(k < 50 ? 1000 + k : 7, k & 255, T0 + k, text(k))
      assert.equal(receiver.receive(packet).kind, 'fact')
      assert.equal(fusion.decompress(packet).error, undefined)
      assert.ok(receiver.weight <= MAX_BYTES && fusion.weight <= MAX_BYTES)
    }
    const grown = heap() - before
    assert.ok(grown < BUDGET, `${kind}: ${grown >> 20} MiB are kept`)
    assert.ok(receiver.sources > 0, 'the counters are still in use')
  })

test('a source within the limits is not evicted for others that are not heard again', () => {
  const receiver = new Receiver({ units, clock, maxBytes: 1 << 20 })
  receiver.receive(full(1, 1, T0, 'a>K.K:1'))
  for (let k = 1; k <= 3000; k++) {
    receiver.receive(full(1000 + k, 1, T0, `a>K.K:1|${'b>K.K:1|'.repeat(50)}`))
    if (k % 10 === 0) assert.equal(receiver.receive(full(1, 1, T0 + k, 'a>K.K:2')).meta.template_learned, true)
  }
  assert.ok(receiver.counters.forgotten > 1000 && receiver.weight <= 1 << 20)
})
