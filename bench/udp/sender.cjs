// A group of nodes in a separate process: makes its packets first, then sends them at a rate, by the addon where there is one. Each message
// {rate, count, burst} is one step, `burst` packets at a time; the answer says how many packets were sent and how long it took.
const { createSocket } = require('node:dgram')
const { join } = require('node:path')
const { UplinkEncoder, ucumUnits: units } = require('../../dist/os-node.js')

const [port, addon, nodes = '16', sensors = '1'] = process.argv.slice(2)
const NODES = Number(nodes)
const UNITS = ['K', 'Pa', 'A', '%', 'm', 'V'].slice(0, Number(sensors))
const LONGEST = 64 + 40 * UNITS.length
const encoders = Array.from({ length: NODES }, (_, k) => ({
  id: `node-${k}`,
  aid: 0x00020000 + k,
  uplink: new UplinkEncoder({ aid: 0x00020000 + k, units, diffBase: 'last', fullEvery: 0, fullIntervalS: 0 }),
}))
let clock = 1_710_000_000_000
let turn = 0

/** one packet of the next node: its readings, all changed since its last one */
function next() {
  const { id, aid, uplink } = encoders[turn++ % NODES]
  const value = 293.15 + ((turn * 7919) % 100_000) / 1e4
  const readings = UNITS.map((unit, k) => ({ id: `t${k}`, status: 'OK', unit, value: value + k }))
  return uplink.encode({ id, state: 'ONLINE', tRaw: clock++, aid, sensors: readings }).bytes
}

const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

function plain() {
  const socket = createSocket('udp4')
  return new Promise(resolve => {
    socket.connect(Number(port), '127.0.0.1', () =>
      resolve((slab, offsets, lengths, from, count) => {
        for (let k = from; k < from + count; k++) socket.send(slab.subarray(offsets[k], offsets[k] + lengths[k]))
      }),
    )
  })
}

function batched() {
  const module = { exports: {} }
  process.dlopen(module, join(__dirname, `../../dist/native/${process.platform}-${process.arch}/os_node.node`))
  const native = module.exports
  const socket = native.openUdp(4, 0, 4 << 20)
  native.connectUdp(socket, '127.0.0.1', Number(port))
  return (slab, offsets, lengths, from, count) => {
    for (let done = 0; done < count; ) {
      const part = offsets.subarray(from + done, from + count)
      const sent = native.send(socket, slab, part, lengths.subarray(from + done, from + count), part.length, null)
      if (sent > 0) done += sent
    }
  }
}

async function step(send, { rate, count, burst = 1 }) {
  const slab = new Uint8Array(count * LONGEST)
  const offsets = new Uint32Array(count)
  const lengths = new Uint32Array(count)
  let at = 0
  for (let k = 0; k < count; k++) {
    const packet = next()
    slab.set(packet, at)
    offsets[k] = at
    at += lengths[k] = packet.length
  }
  const start = performance.now()
  for (let sent = 0; sent < count; ) {
    const bursts = Math.ceil((((performance.now() - start) / 1000) * rate) / burst)
    const due = Math.min(count, bursts * burst) - sent
    if (due > 0) send(slab, offsets, lengths, sent, due)
    sent += due
    await pause(1)
  }
  return { count, seconds: (performance.now() - start) / 1000, bytes: at / count }
}

async function main() {
  const send = addon === 'addon' ? batched() : await plain()
  // the full packets first, so that the receiver knows every template
  await step(send, { rate: 4000, count: NODES })
  process.on('message', async message => process.send(await step(send, message)))
  process.send({ ready: NODES })
}
void main()
