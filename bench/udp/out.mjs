// UDP out of the built program: packets per second of node:dgram alone, of the medium without and with the addon, one by
// one and in batches, to a port that is never read. Then the heap that one packet costs, in both cases: no collection may
// hide it, so it is the minimum of several runs.
import { createSocket } from 'node:dgram'
import { createRequire } from 'node:module'

const { mediaTable } = createRequire(import.meta.url)('../../dist/os-node.js')

const COUNT = 4096
const ROUND = 256
/** the cost of measuring itself is spread over so many runs */
const HEAP_RUNS = 16
const packets = Array.from({ length: ROUND }, (_, k) => Buffer.alloc(40 + (k % 3), k))
const logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => logger }
const context = { clock: { wall: Date.now, mono: () => performance.now() }, logger }
const events = { lost: reason => console.error(reason), degraded() {} }

async function medium(options) {
  const made = (await mediaTable.UDP()).create('bench', options, context)
  await made.open(events)
  return made
}

async function bestRate(run) {
  await run()
  let best = 0
  for (let k = 0; k < 12; k++) {
    const start = performance.now()
    await run()
    best = Math.max(best, COUNT / (performance.now() - start))
  }
  return Math.round(best * 1000)
}

async function heapPer(run, count) {
  for (let k = 0; k < 3; k++) await run()
  let least = Number.POSITIVE_INFINITY
  for (let k = 0; k < 7; k++) {
    globalThis.gc()
    const before = process.memoryUsage().heapUsed
    await run()
    const grown = process.memoryUsage().heapUsed - before
    if (grown >= 0) least = Math.min(least, grown / count)
  }
  return Math.round(least * 10) / 10
}

const bound = () =>
  new Promise(resolve => {
    const socket = createSocket('udp4')
    socket.bind(0, '127.0.0.1', () => resolve(socket))
  })

/** node:dgram at full speed: connected, one turn of the loop per 32 packets */
function dgramRun(socket) {
  return () =>
    new Promise(resolve => {
      let left = COUNT
      let pending = 0
      const more = () => {
        for (let k = 0; k < 32 && left > 0; k++, left--, pending++)
          socket.send(packets[left % ROUND], () => {
            if (--pending === 0 && left === 0) resolve()
          })
        if (left > 0) setImmediate(more)
      }
      more()
    })
}

const oneByOne = sender => async () => {
  for (let k = 0; k < COUNT; k += 32) {
    const turn = []
    for (let n = 0; n < 32; n++) turn.push(sender.send(packets[(k + n) % ROUND]))
    await Promise.all(turn)
  }
}
const inBatches = sender => async () => {
  for (let k = 0; k < COUNT; k += ROUND) await sender.sendBatch(packets)
}

/** the batches of the addon against node:dgram */
const RATIO = 2
/** more rounds if it is less */
const MORE = 8

export async function benchOut({ put, gate, gateLeast }, addon) {
  const sink = await bound()
  const { port } = sink.address()
  const raw = createSocket('udp4')
  await new Promise(resolve => raw.connect(port, '127.0.0.1', resolve))
  const open = [raw, sink]
  const plain = await bestRate(dgramRun(raw))
  put('udp/out/dgram', plain)
  for (const batch of addon ? ['off', 'auto'] : ['off']) {
    const sender = await medium({ host: '127.0.0.1', port, batch })
    open.push(sender)
    const name = batch === 'auto' ? 'addon' : 'plain'
    put(`udp/out/${name}/send`, await bestRate(oneByOne(sender)))
    let rate = await bestRate(inBatches(sender))
    if (name === 'plain') {
      put(`udp/out/${name}/batch`, rate)
      continue
    }
    // if other load on the machine took the core from one of the two, both are measured again
    let base = plain
    for (let k = 0; k < MORE && rate < RATIO * base; k++) {
      base = Math.max(base, await bestRate(dgramRun(raw)))
      rate = Math.max(rate, await bestRate(inBatches(sender)))
    }
    put(`udp/out/${name}/batch`, rate)
    gateLeast('udp/out/addon/batch_times', Math.round((rate / base) * 100) / 100, RATIO)
    const often = async () => {
      for (let k = 0; k < HEAP_RUNS; k++) await inBatches(sender)()
    }
    gate('udp/out/addon/heap_bytes_per_packet', await heapPer(often, HEAP_RUNS * COUNT), 8)
  }
  if (addon) {
    const listener = await medium({ mode: 'listen', listen_host: '127.0.0.1', port: 0 })
    const sender = await medium({ host: '127.0.0.1', port: listener.port })
    open.push(listener, sender)
    let got = 0
    let all = () => undefined
    listener.onPacket((packet, origin) => {
      if (packet.length > 30 && origin.reply && ++got % COUNT === 0) all()
    })
    const receive = async () => {
      const done = new Promise(resolve => {
        all = resolve
      })
      await inBatches(sender)()
      await done
    }
    // the cost of a wake besides its packets is spread over as many as in the other direction
    const receiveOften = async () => {
      for (let k = 0; k < HEAP_RUNS; k++) await receive()
    }
    gate('udp/in/addon/heap_bytes_per_packet', await heapPer(receiveOften, HEAP_RUNS * COUNT), 16)
  }
  for (const socket of open) await socket.close()
}
