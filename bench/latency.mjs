// From the end of a register read to the packet at the upstream: a real gateway at its defaults, one Modbus TCP source of 40
// registers at 1 s, over UDP (to a socket here) and MQTT (through mosquitto to a subscriber). Beside it what that costs: flash
// bytes per reading, as the kernel counts them, and how often the main thread wakes in a second, with and without the source.
import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pause } from './udp/gateway.mjs'

const script = fileURLToPath(new URL('../dist/os-node.js', import.meta.url))
const MOSQUITTO = '/usr/sbin/mosquitto'
const REGISTERS = 40
const SETTLE_MS = 8000
const MEASURE_MS = 30_000
/** p50 and p99 in ms; the kernel's bytes for one reading */
const MARKS = { p50: 10, p99: 60, flash: 133 }
const [PING, PONG, AID] = [0x09, 0x0a, 7]

const tcpServer = onSocket =>
  new Promise(resolve => {
    const server = createServer(onSocket).listen(0, '127.0.0.1', () => resolve(server))
  })

/** A Modbus server whose registers change with every read; `read(at)` is told when an answer has left. */
function modbusServer(read) {
  let value = 0
  return tcpServer(socket => {
    socket.setNoDelay(true)
    socket.on('data', request => {
      const count = request.readUInt16BE(10)
      const answer = Buffer.alloc(9 + 2 * count)
      request.copy(answer, 0, 0, 8)
      answer.writeUInt16BE(3 + 2 * count, 4)
      answer[8] = 2 * count
      for (let k = 0; k < count; k++) answer.writeUInt16BE(++value & 0xffff, 9 + 2 * k)
      socket.write(answer, () => read(performance.now()))
    })
    socket.on('error', () => undefined)
  })
}

/** An upstream's bare socket: it answers a probe with a bare PONG, so every packet leaves once. */
function udpUpstream(got) {
  const socket = createSocket('udp4')
  socket.on('message', (packet, from) => {
    if (packet[0] === PING) socket.send(Buffer.from([PONG, packet[1], packet[2]]), from.port, from.address)
    else if (packet.length > 16) got(performance.now())
  })
  return new Promise(resolve => socket.bind(0, '127.0.0.1', () => resolve(socket)))
}

const proc = (pid, file, key) =>
  Number(new RegExp(`${key}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/${file}`, 'utf8'))[1])

/** Runs a gateway of these sources and uplink, lets it settle, measures; `dir` is removed. */
async function gateway(sources, uplink) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-latency-'))
  const path = join(dir, 'Config.json')
  writeFileSync(path, JSON.stringify({ assigned_id: AID, device_id: 'bench', gateway: { sources, uplinks: [uplink] } }))
  const args = ['run', '--config', path, '--data-dir', join(dir, 'data'), '--port', '0']
  const child = spawn(process.execPath, [script, ...args], {
    stdio: 'ignore',
    env: { ...process.env, OS_NODE_CONFIG: '' },
  })
  const ended = new Promise(resolve => child.once('exit', resolve))
  const figures = () => ({
    at: performance.now(),
    bytes: proc(child.pid, 'io', 'write_bytes'),
    wakes: proc(child.pid, `task/${child.pid}/status`, 'voluntary_ctxt_switches'),
  })
  await pause(SETTLE_MS)
  const before = figures()
  await pause(MEASURE_MS)
  const after = figures()
  child.kill('SIGTERM')
  await ended
  rmSync(dir, { recursive: true, force: true })
  const seconds = (after.at - before.at) / 1000
  return {
    from: before.at,
    to: after.at,
    seconds,
    bytes: after.bytes - before.bytes,
    wakes: (after.wakes - before.wakes) / seconds,
  }
}

/** `context`: `mqttDriver` of the built library and what it needs. */
export async function benchLatency({ mqttDriver, context }, { put, problems }) {
  const reads = []
  const modbus = await modbusServer(at => reads.push(at))
  const registers = Array.from({ length: REGISTERS }, (_, k) => ({ id: `r${k}`, address: k, unit: 'V' }))
  const { port } = modbus.address()
  const source = { name: 'plc', type: 'modbus_tcp', host: '127.0.0.1', port, interval_ms: 1000, registers }
  const got = []
  const measure = async (way, uplink) => {
    got.length = reads.length = 0
    const run = await gateway([source], uplink)
    const delays = reads
      .filter(at => at >= run.from && at < run.to - 1000)
      .map(at => (got.find(time => time >= at) ?? Number.POSITIVE_INFINITY) - at)
      .sort((a, b) => a - b)
    const at = part => Math.round(delays[Math.min(delays.length - 1, Math.floor(delays.length * part))] * 10) / 10
    put(`latency/${way}/p50_ms`, at(0.5))
    put(`latency/${way}/p99_ms`, at(0.99))
    if (at(0.5) > MARKS.p50 || at(0.99) > MARKS.p99) problems.push(`latency/${way}: p50 ${at(0.5)}, p99 ${at(0.99)} ms`)
    return { ...run, readings: reads.filter(time => time >= run.from && time < run.to).length * REGISTERS }
  }
  const upstream = await udpUpstream(time => got.push(time))
  const udp = { name: 'up', medium: 'UDP', host: '127.0.0.1', port: upstream.address().port }
  const run = await measure('udp', udp)
  put('flash_bytes_per_reading/40', Math.round(run.bytes / run.readings))
  put('wakeups_per_s/40', Math.round(run.wakes * 10) / 10)
  if (run.bytes / run.readings > MARKS.flash) problems.push(`flash_bytes_per_reading/40: ${run.bytes / run.readings}`)
  const idle = await gateway([], udp)
  put('wakeups_per_s/idle', Math.round(idle.wakes * 10) / 10)
  upstream.close()
  if (existsSync(MOSQUITTO)) await overMqtt()
  else console.log('latency/mqtt: not measured, this machine has no mosquitto')
  modbus.close()

  async function overMqtt() {
    const free = await tcpServer(() => undefined)
    const { port: brokerPort } = free.address()
    await new Promise(resolve => free.close(resolve))
    const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-latency-'))
    writeFileSync(
      join(dir, 'conf'),
      `listener ${brokerPort} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\nlog_type none\n`,
    )
    const broker = spawn(MOSQUITTO, ['-c', join(dir, 'conf')], { stdio: 'ignore' })
    const identity = { aid: 9, installId: 'bench0000009', onAssigned: () => () => undefined }
    const options = { host: '127.0.0.1', port: brokerPort, mode: 'listen' }
    const subscriber = mqttDriver.create('down', options, { ...context, identity })
    subscriber.onPacket((packet, origin) => {
      if (packet.length > 16) got.push(performance.now())
      origin.settle?.(true)
    })
    await pause(1000)
    await subscriber.open({ lost: reason => console.error(`latency: ${reason}`), degraded: () => undefined })
    try {
      await measure('mqtt', { name: 'up', medium: 'MQTT', host: '127.0.0.1', port: brokerPort })
    } finally {
      await subscriber.close()
      broker.kill()
      rmSync(dir, { recursive: true, force: true })
    }
  }
}
