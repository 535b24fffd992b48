// Rates, heap and bytes of the built codec on 4096 precomputed readings, every one changing, compared with the limit probe and the
// codec peers on the same readings. Every frame of every method, and of every peer, is decoded after the measurement and compared with
// its input.
import { createRequire } from 'node:module'
import { benchDecode, decodeRate, HEAP_RUNS, inTurn } from './decode.mjs'
import { probe } from './limit.mjs'
import { peers, SIZES } from './peers.mjs'
import { benchTransmit } from './transmit.mjs'

const require = createRequire(import.meta.url)
const {
  createNativeChecks,
  createNativeCore,
  createPureCore,
  Node,
  Receiver,
  ucumUnits: units,
  UplinkEncoder,
} = require('../dist/os-node.js')

const COUNT = 4096
const AID = 0x00010203
const T0 = 1_710_000_000_000
const WINDOW_MS = 120

/**
 * Heap per packet in bytes: a view for transmitFast; for a decoder the fact, and a boxed number per reading, since V8 does not inline every call
 * in every run; two boxed numbers of this program's own call for encodeInto and
 * batches (and one in three values of a FULL), nothing at all for the gateway's own path (`uplink`: UplinkEncoder.encodeInto).
 */
const HEAP_BUDGET = {
  encode: 260,
  decode: n => 500 + 100 * n,
  /** without the result that holds the fact */
  batchDecode: n => 160 + 100 * n,
  into: 40,
  batch: { diff: () => 40, heart: () => 40, full: n => 40 + 11 * n },
  uplink: 1,
}
/** the target of transmitFast relative to the limit probe: share by readings in a packet */
const ENCODE_MARKS = { 1: 0.5, 4: 0.7 }
/** FULL: text with ids and units; DIFF: 16 + mask + 1 + 5 per reading; HEART: the bare frame */
const BYTES_BUDGET = { full: n => 50 + 18 * n, diff: n => 17 + Math.ceil(n / 4) + 6 * n, heart: () => 16 }

// the product's own units; Celsius to Kelvin is an offset unit, so the conversion does work
const newCore = () => createPureCore({ resolver: units, units, precision: 4 })
const newNative = () => createNativeCore({ resolver: units, units, precision: 4 })

const round = x => Math.round(x * 100) / 100

/** operations per second: best of several windows, so that other load on the machine does not count */
function rate(run, per) {
  run()
  run()
  let best = 0
  for (let k = 0; k < 4; k++) {
    let done = 0
    const start = performance.now()
    let now = start
    while (now - start < WINDOW_MS) {
      run()
      done += per
      now = performance.now()
    }
    best = Math.max(best, (done / (now - start)) * 1000)
  }
  return Math.round(best)
}

/** heapUsed growth per operation with the results dropped immediately; a run with a collection in it is repeated */
function heapPer(run, per) {
  for (let k = 0; k < HEAP_RUNS - 9; k++) run()
  let least = Number.POSITIVE_INFINITY
  for (let k = 0; k < 9; k++) {
    globalThis.gc()
    const before = process.memoryUsage().heapUsed
    run()
    const grown = process.memoryUsage().heapUsed - before
    if (grown >= 0) least = Math.min(least, grown / per)
  }
  return Math.round(least * 10) / 10
}

function readings(size) {
  let seed = 12345
  const random = () => (seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff) / 0x7fffffff
  const rows = Array.from({ length: COUNT }, (_, k) =>
    Array.from({ length: size }, (_, i) => [
      `s${i}`,
      'OK',
      Math.round((20 + 10 * random()) * 1e4 + (k & 1)) / 1e4,
      'Cel',
    ]),
  )
  // every value differs from the one before it
  for (let k = 0; k < COUNT; k++)
    for (let i = 0; i < size; i++)
      if (rows[k][i][2] === rows[(k + COUNT - 1) % COUNT][i][2])
        rows[k][i][2] = Math.round(rows[k][i][2] * 1e4 + 7) / 1e4
  return rows
}

/** `put(key, value)` records every figure, `gate` those with a budget, `mark` those with a target. */
export async function benchCodec({ put, gate, mark, problems, wanted }) {
  /** Every frame of one pass is decoded and compared with its input. */
  function check(name, packets, expected) {
    const receiver = new Receiver({ units })
    packets.forEach((packet, k) => {
      const got = receiver.receive(packet)
      const values = got.kind === 'fact' ? got.fact.sensors.map(s => s.value) : got.message
      const rows = expected[k]
      const good =
        Array.isArray(values) &&
        values.length === rows.length &&
        values.every((v, i) => Math.abs(v - (rows[i][2] + 273.15)) < 1e-4)
      if (!good && problems.length < 5) problems.push(`${name}: packet ${k} decoded to ${JSON.stringify(values)}`)
    })
  }

  function benchCore(how, size, rows) {
    const core = newCore()
    const list = how === 'heart' ? rows.map(() => rows[0]) : rows
    const strategy = how === 'full' ? 'FULL' : 'DIFF'
    let t = T0
    const first = core.transmitFast(list[COUNT - 1], 'bench', 'ONLINE', t++, AID, 'FULL')
    const encode = () => {
      for (let k = 0; k < COUNT; k++) core.transmitFast(list[k], 'bench', 'ONLINE', t++, AID, strategy)
    }
    const slab = Buffer.alloc(1 << 20)
    const into = () => {
      let at = 0
      for (let k = 0; k < COUNT; k++) {
        if (at > slab.length - 4096) at = 0
        at = core.encodeInto(slab, at, list[k], 'bench', 'ONLINE', t++, AID, strategy)
      }
    }
    const key = `${how}/${size}`
    const share = how === 'diff' && ENCODE_MARKS[size]
    if (wanted(`encode/${key}/pycore`))
      mark(`encode/${key}/pycore`, rate(encode, COUNT), share && `≥ ${share} × probe/diff/${size}`)
    if (wanted(`encode_into/${key}/pycore`)) put(`encode_into/${key}/pycore`, rate(into, COUNT))
    const heapKey = `heap_bytes_per_packet/encode/${key}/pycore`
    const heapInto = `heap_bytes_per_packet/encode_into/${key}/pycore`
    if (wanted(heapKey)) gate(heapKey, heapPer(encode, COUNT), HEAP_BUDGET.encode)
    if (wanted(heapInto))
      gate(
        heapInto,
        heapPer(() => {
          for (let k = 0; k < 16; k++) into()
        }, 16 * COUNT),
        HEAP_BUDGET.into,
      )

    core.transmitFast(list[COUNT - 1], 'bench', 'ONLINE', t++, AID, 'FULL')
    const packets = list.map(row => core.transmitFast(row, 'bench', 'ONLINE', t++, AID, strategy))
    const want = { full: 0x3f, diff: 0xaa, heart: 0x7f }[how]
    if (packets.some((p, k) => p[0] !== want && !(how === 'heart' && k === 0)))
      problems.push(`${key}: not all packets are ${how}`)
    check(key, [first, ...packets], [list[COUNT - 1], ...list])
    const again = core.transmitFast(list[COUNT - 1], 'bench', 'ONLINE', t++, AID, 'FULL')
    const copies = list.map(row => {
      const end = core.encodeInto(slab, 0, row, 'bench', 'ONLINE', t++, AID, strategy)
      return Buffer.from(slab.subarray(0, end))
    })
    check(`encode_into/${key}`, [again, ...copies], [list[COUNT - 1], ...list])
    const bytes = packets.slice(1).reduce((sum, p) => sum + p.length, 0) / (COUNT - 1)
    gate(`bytes_per_packet/${key}`, round(bytes), BYTES_BUDGET[how](size))
    put(`bytes_per_reading/${key}`, round(bytes / size))

    const fresh = () => {
      const receiver = new Receiver({ units })
      receiver.receive(first)
      return receiver
    }
    // as many as fit the young generation without a collection
    const part = how === 'full' ? COUNT / 8 : COUNT / 2
    const decode = (receiver, count) => {
      for (let k = 0; k < count; k++) receiver.receive(packets[k])
    }
    if (wanted(`decode/${key}/pycore`))
      put(
        `decode/${key}/pycore`,
        decodeRate(fresh, receiver => decode(receiver, COUNT), COUNT),
      )
    const heapDecode = `heap_bytes_per_packet/decode/${key}/pycore`
    if (wanted(heapDecode)) {
      const run = inTurn(fresh, receiver => decode(receiver, part))
      gate(heapDecode, heapPer(run, part), HEAP_BUDGET.decode(size))
    }
    const newReceiver = checks => new Receiver({ units, checks })
    const hoped = { diff: 'above both', full: `≥ 0.5 × encode/full/${size}/pycore` }[how]
    benchDecode(
      { createNativeChecks, newReceiver, heapPer, problems, wanted, gate, mark },
      { how, size, first, packets, rows: list, budget: HEAP_BUDGET.batchDecode(size), hoped },
    )
  }

  /** The native core: single packets, which JavaScript makes there too, and batches of 256 into reused memory. */
  function benchNative(how, size, rows) {
    const key = `${how}/${size}/rscore`
    const batchKey = `encode_batch256/${key}`
    const heapKey = `heap_bytes_per_packet/${batchKey}`
    if (![`encode/${key}`, batchKey, heapKey].some(wanted)) return
    const list = how === 'heart' ? rows.map(() => rows[0]) : rows
    const strategy = how === 'full' ? 'FULL' : 'DIFF'
    const core = newNative()
    let t = T0
    const slab = Buffer.alloc(1 << 20)
    const ends = new Int32Array(256)
    const batches = each => {
      for (let k = 0; k < COUNT; k += 256) {
        for (let i = k; i < k + 256; i++) core.stage(list[i], 'bench', 'ONLINE', t++, AID, strategy)
        core.takeInto(slab, 0, ends)
        each?.()
      }
    }
    if (wanted(`encode/${key}`)) {
      const single = newNative()
      const one = row => single.transmitFast(row, 'bench', 'ONLINE', t++, AID, strategy)
      put(
        `encode/${key}`,
        rate(() => {
          for (let k = 0; k < COUNT; k++) one(list[k])
        }, COUNT),
      )
      const first = single.transmitFast(list[COUNT - 1], 'bench', 'ONLINE', t++, AID, 'FULL')
      check(`encode/${key}`, [first, ...list.map(one)], [list[COUNT - 1], ...list])
    }
    if (wanted(batchKey)) mark(batchKey, rate(batches, COUNT), `≥ 2 × encode/${how}/${size}/pycore`)
    if (wanted(heapKey))
      gate(
        heapKey,
        heapPer(() => {
          for (let k = 0; k < 16; k++) batches()
        }, 16 * COUNT),
        HEAP_BUDGET.batch[how](size),
      )
    const first = core.transmitFast(list[COUNT - 1], 'bench', 'ONLINE', t++, AID, 'FULL')
    const packets = []
    batches(() => {
      for (let k = 0; k < 256; k++) packets.push(Buffer.from(slab.subarray(k === 0 ? 0 : ends[k - 1], ends[k])))
    })
    check(batchKey, [first, ...packets], [list[COUNT - 1], ...list])
  }

  /** The gateway's own path: facts from the log into reused memory. */
  function benchUplink(size, rows) {
    const key = `uplink/diff/${size}/pycore`
    const heapKey = `heap_bytes_per_packet/${key}`
    if (!wanted(key) && !wanted(heapKey)) return
    const uplink = new UplinkEncoder({ aid: AID, units, diffBase: 'last', fullEvery: 0, fullIntervalS: 0 })
    // one literal, so that all facts have one hidden class, like those of the log
    const make = (row, tRaw) => ({
      id: 'bench',
      state: 'ONLINE',
      tRaw: tRaw + 0.5,
      aid: AID,
      sensors: row.map(([id, status, value]) => ({ id, status, unit: 'K', value: value + 273.15 })),
    })
    const facts = rows.map((row, k) => make(row, T0 + k))
    for (const fact of facts) fact.tRaw = Math.floor(fact.tRaw)
    const slab = Buffer.alloc(1 << 20)
    let at = 0
    const encode = () => {
      for (let k = 0; k < COUNT; k++) {
        if (at > slab.length - 4096) at = 0
        const fact = facts[k]
        at = uplink.encodeInto(fact, slab, at)
        fact.tRaw += COUNT
      }
    }
    put(key, rate(encode, COUNT))
    gate(
      heapKey,
      heapPer(() => {
        for (let k = 0; k < 250; k++) encode()
      }, 250 * COUNT),
      HEAP_BUDGET.uplink,
    )
    const packets = facts.map(fact => Buffer.from(uplink.encode(fact).bytes))
    const again = new UplinkEncoder({ aid: AID, units })
    check(key, [again.encode(make(rows[COUNT - 1], T0)).bytes, ...packets], [rows[COUNT - 1], ...rows])
  }

  function benchProbe(size, rows) {
    if (!wanted(`probe/diff/${size}`)) return
    const { encode } = probe(size, AID)
    const values = rows.map(row => Float64Array.from(row, r => r[2]))
    let t = T0
    put(
      `probe/diff/${size}`,
      rate(() => {
        for (let k = 0; k < COUNT; k++) encode(values[k], t++)
      }, COUNT),
    )
  }

  async function benchPeers(size, rows) {
    for (const { name, encode, decode } of await peers(rows, T0)) {
      if (![`peer/${name}/encode/${size}`, `peer/${name}/decode/${size}`, `peer_bytes/${name}/${size}`].some(wanted))
        continue
      const encoded = rows.map((_, k) => Buffer.from(encode(k)))
      put(`peer_bytes/${name}/${size}`, round(encoded.reduce((sum, b) => sum + b.length, 0) / COUNT))
      const bad = encoded.findIndex((bytes, k) => decode(bytes).sensors.some(({ value }, i) => value !== rows[k][i][2]))
      if (bad >= 0)
        problems.push(`peer/${name}/${size}: packet ${bad} decoded to ${JSON.stringify(decode(encoded[bad]))}`)
      put(
        `peer/${name}/encode/${size}`,
        rate(() => {
          for (let k = 0; k < COUNT; k++) encode(k)
        }, COUNT),
      )
      put(
        `peer/${name}/decode/${size}`,
        rate(() => {
          for (let k = 0; k < COUNT; k++) decode(encoded[k])
        }, COUNT),
      )
    }
  }

  for (const size of SIZES) {
    const rows = readings(size)
    benchProbe(size, rows)
    for (const how of ['diff', 'full', 'heart']) benchCore(how, size, rows)
    for (const how of ['diff', 'full', 'heart']) benchNative(how, size, rows)
    benchUplink(size, rows)
    await benchPeers(size, rows)
  }
  benchTransmit({ Node }, { mark, put, wanted, rows: readings, rate, check })
}
