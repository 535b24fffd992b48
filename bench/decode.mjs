// Batches of 256 frames decoded into facts, their checksums on the native core; every fact is compared with its input.
const BATCH = 256
const COUNT = 4096
const WINDOW_MS = 120
/** runs made by heapPer */
export const HEAP_RUNS = 21

/** The frames of `packets` as batches: bytes one after another, and the end of each. */
function batches(packets) {
  const made = []
  for (let k = 0; k < packets.length; k += BATCH) {
    const part = packets.slice(k, k + BATCH)
    let end = 0
    made.push({ bytes: Buffer.concat(part), ends: Int32Array.from(part, packet => (end += packet.length)) })
  }
  return made
}

/** Packets per second: each pass reads the packets in order with a receiver that has not seen them. */
export function decodeRate(fresh, pass, count) {
  let best = 0
  for (let k = 0; k < 4; k++) {
    let done = 0
    let spent = 0
    while (spent < WINDOW_MS) {
      const receiver = fresh()
      const start = performance.now()
      pass(receiver)
      spent += performance.now() - start
      done += count
    }
    best = Math.max(best, (done / spent) * 1000)
  }
  return Math.round(best)
}

/** A run for heapPer with a receiver created before, since for one that knows the packets they are late. */
export function inTurn(fresh, pass) {
  const ready = Array.from({ length: HEAP_RUNS }, fresh)
  return () => pass(ready.pop())
}

/** `how/size`: a FULL `first`, then COUNT packets of `rows`. `newReceiver(checks)` knows nothing yet. */
export function benchDecode(
  { createNativeChecks, newReceiver, heapPer, problems, wanted, gate, mark },
  { how, size, first, packets, rows, budget, hoped },
) {
  const key = `decode/${how}/${size}/rscore`
  const heapKey = `heap_bytes_per_packet/${key}`
  if (!wanted(key) && !wanted(heapKey)) return
  const checks = createNativeChecks()
  const parts = batches(packets)
  const good = (fact, k) => fact.sensors.every((sensor, i) => Math.abs(sensor.value - (rows[k][i][2] + 273.15)) < 1e-4)
  let seen = 0
  const each = {
    fact: (_, fact) => {
      if (!good(fact, seen++) && problems.length < 5)
        problems.push(`${key}: packet ${seen - 1} decoded to ${JSON.stringify(fact)}`)
    },
    other: (_, got) => {
      const fact = got.kind === 'fact' ? got.fact : undefined
      if (!(fact && good(fact, seen)) && problems.length < 5)
        problems.push(`${key}: packet ${seen}: ${JSON.stringify(got)}`)
      seen++
    },
  }
  const all = newReceiver(checks)
  all.receive(first)
  for (const { bytes, ends } of parts) all.receiveBatch(bytes, ends, ends.length, each)
  if (seen !== COUNT) problems.push(`${key}: ${seen} of ${COUNT} packets were decoded`)
  let last
  const drop = {
    fact: (_, fact) => {
      last = fact
    },
    other: (_, got) => {
      last = got
    },
  }
  const fresh = () => {
    const receiver = newReceiver(checks)
    receiver.receive(first)
    return receiver
  }
  const pass = (receiver, some = parts) => {
    for (const { bytes, ends } of some) receiver.receiveBatch(bytes, ends, ends.length, drop)
  }
  if (wanted(key)) mark(key, decodeRate(fresh, pass, COUNT), hoped)
  const few = parts.slice(0, how === 'full' ? 4 : 8)
  if (wanted(heapKey))
    gate(
      heapKey,
      heapPer(
        inTurn(fresh, receiver => pass(receiver, few)),
        few.length * BATCH,
      ),
      budget,
    )
  if (last === undefined && wanted(key)) problems.push(`${key}: nothing was decoded`)
}
