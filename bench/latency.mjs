// From the end of a register read to the packet at the upstream: real gateways at their defaults, each with one Modbus TCP source of 40 registers at
// 1 s, over UDP (to a socket here) and MQTT (through mosquitto to a subscriber), and one without a source. Also its cost, for a source polled ten
// times a second and at full speed too: flash bytes per reading, as the kernel counts them, and how often the threads of a gateway wake in a second.
// The three run in parallel: none takes more than a few per cent of a processor.
import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { usage } from './start.mjs'
import { pause } from './udp/gateway.mjs'

const script = fileURLToPath(new URL('../dist/os-node.js', import.meta.url))
const MOSQUITTO = '/usr/sbin/mosquitto'
export const REGISTERS = 40
const SETTLE_MS = 8000
const MEASURE_MS = 30_000
/** p50 and p99 in ms; the kernel's bytes for one reading: 133, and four pages that happen to be in the window; bytes in both directions through MQTT */
const MARKS = { p50: 10, p99: 60, flash: 147, mqttBytes: 10 }
/** an interval between polls that is shorter than a poll */
const HIGHEST_MS = 2
const TENTH_MS = 100
const [PING, PONG] = [0x09, 0x0a]
/** Every value changes with every read, so a packet of readings is longer than any other packet of a gateway. */
const isReadings = packet => packet.length > 4 * REGISTERS

const listening = onSocket =>
  new Promise(resolve => {
    const server = createServer(onSocket).listen(0, '127.0.0.1', () => resolve(server))
  })

/** A Modbus server whose registers change with every read; `read(at)` is called for each answer as it is sent. */
export function modbusServer(read) {
  let value = 0
  return listening(socket => {
    socket.setNoDelay(true)
    socket.on('data', request => {
      const count = request.readUInt16BE(10)
      const answer = Buffer.alloc(9 + 2 * count)
      request.copy(answer, 0, 0, 8)
      answer.writeUInt16BE(3 + 2 * count, 4)
      answer[8] = 2 * count
      for (let k = 0; k < count; k++) answer.writeUInt16BE(++value & 0xffff, 9 + 2 * k)
      read(performance.now())
      socket.write(answer)
    })
    socket.on('error', () => undefined)
  })
}

/** An upstream's bare socket: it answers a probe with a bare PONG, so every packet is sent once. */
function udpUpstream(got) {
  const socket = createSocket('udp4')
  socket.on('message', (packet, from) => {
    if (packet[0] === PING) socket.send(Buffer.from([PONG, packet[1], packet[2]]), from.port, from.address)
    else if (isReadings(packet)) got(performance.now())
  })
  return new Promise(resolve => socket.bind(0, '127.0.0.1', () => resolve(socket)))
}

const figure = (file, key) => Number(new RegExp(`${key}:\\s+(\\d+)`).exec(readFileSync(file, 'utf8'))[1])

const figuresOf = pid => ({ ...usage(pid), bytes: figure(`/proc/${pid}/io`, 'write_bytes') })

/** A port that forwards everything to `port` and back, and counts the bytes. */
async function counting(port) {
  const counted = { bytes: 0 }
  const server = await listening(socket => {
    const other = connect(port, '127.0.0.1').setNoDelay(true)
    socket.setNoDelay(true)
    for (const [from, to] of [
      [socket, other],
      [other, socket],
    ]) {
      from.on('data', bytes => {
        counted.bytes += bytes.length
        to.write(bytes)
      })
      from.on('close', () => to.destroy())
      from.on('error', () => undefined)
    }
  })
  return { counted, server, port: server.address().port }
}

/** Runs a gateway with these sources and uplink, lets it settle, measures. */
async function gateway(aid, sources, uplink, wire = { bytes: 0 }) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-latency-'))
  const path = join(dir, 'Config.json')
  // a machine without time synchronisation would delay its records for five minutes (decision 0044)
  const time = { hold_unsynced_s: 0 }
  const RESOURCES = { application_status: { mqtt: true } }
  const node = { assigned_id: aid, device_id: `bench${aid}`, RESOURCES }
  writeFileSync(path, JSON.stringify({ ...node, gateway: { time, sources, uplinks: [uplink] } }))
  const args = ['run', '--config', path, '--data-dir', join(dir, 'data'), '--port', '0']
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, OS_NODE_CONFIG: '' },
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', text => {
    said += text
  })
  const ended = new Promise(resolve => child.once('exit', resolve))
  try {
    await pause(SETTLE_MS)
    const before = { ...figuresOf(child.pid), wire: wire.bytes }
    await pause(MEASURE_MS)
    const after = { ...figuresOf(child.pid), wire: wire.bytes }
    const perSecond = 1000 / (after.at - before.at)
    return {
      said,
      from: before.at,
      to: after.at,
      bytes: after.bytes - before.bytes,
      cpuMs: after.cpuMs - before.cpuMs,
      wire: after.wire - before.wire,
      wakes: Math.round((after.wakes - before.wakes) * perSecond * 10) / 10,
    }
  } finally {
    child.kill('SIGTERM')
    await ended
    rmSync(dir, { recursive: true, force: true })
  }
}

/**
 * The delay of each read to the next packet, sorted; a packet that does not arrive before the next read counts with that
 * delay.
 */
function delaysOf(reads, got) {
  const delays = []
  for (let k = 0; k + 1 < reads.length; k++) {
    const end = got.find(time => time >= reads[k]) ?? Number.POSITIVE_INFINITY
    delays.push(Math.min(end, reads[k + 1]) - reads[k])
  }
  return delays.sort((a, b) => a - b)
}

/** `context`: `mqttDriver` of the built library and what it needs. */
export async function benchLatency({ mqttDriver, context }, { put, mark, gate, problems, starts, wanted }) {
  const registers = Array.from({ length: REGISTERS }, (_, k) => ({ id: `r${k}`, address: k, unit: 'V' }))
  const plc = (port, interval_ms) => [
    { name: 'plc', type: 'modbus_tcp', host: '127.0.0.1', port, interval_ms, registers },
  ]
  const measure = async (way, aid, uplink, got, wire) => {
    const reads = []
    const modbus = await modbusServer(at => reads.push(at))
    const run = await gateway(aid, plc(modbus.address().port, 1000), uplink, wire)
    modbus.close()
    const during = time => time >= run.from && time < run.to
    const measured = reads.filter(during)
    const came = got.filter(during).length
    if (came === 0) {
      problems.push(
        `latency/${way}: ${measured.length} reads, and no packet came to the upstream; the gateway said:\n${run.said}`,
      )
      return
    }
    const delays = delaysOf(measured, got)
    const at = part => Math.round(delays[Math.floor((delays.length - 1) * part)] * 10) / 10
    gate(`latency/${way}/p50_ms`, at(0.5), MARKS.p50)
    mark(`latency/${way}/p99_ms`, at(0.99), `≤ ${MARKS.p99}`)
    const readings = measured.length * REGISTERS
    if (wire) gate('bytes_per_reading/mqtt/40', Math.round((run.wire / readings) * 100) / 100, MARKS.mqttBytes)
    if (way !== 'udp') return
    mark('gateway/cpu_ms_per_reading/40', Math.round((run.cpuMs / readings) * 1000) / 1000, '≤ 0.08')
    gate('flash_bytes_per_reading/40', Math.round(run.bytes / (measured.length * REGISTERS)), MARKS.flash)
    put('wakeups_per_s/40', run.wakes)
  }

  async function overUdp() {
    const got = []
    const upstream = await udpUpstream(time => got.push(time))
    await measure('udp', 7, { name: 'up', medium: 'UDP', host: '127.0.0.1', port: upstream.address().port }, got)
    upstream.close()
  }

  async function idle() {
    const upstream = await udpUpstream(() => undefined)
    const uplink = { name: 'up', medium: 'UDP', host: '127.0.0.1', port: upstream.address().port }
    put('wakeups_per_s/idle', (await gateway(8, [], uplink)).wakes)
    upstream.close()
  }

  async function overMqtt() {
    const free = await listening(() => undefined)
    const { port } = free.address()
    await new Promise(resolve => free.close(resolve))
    const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-latency-'))
    writeFileSync(
      join(dir, 'conf'),
      `listener ${port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\nlog_type none\n`,
    )
    const broker = spawn(MOSQUITTO, ['-c', join(dir, 'conf')], { stdio: 'ignore' })
    const identity = { aid: 10, installId: 'bench0000010', onAssigned: () => () => undefined }
    const options = { host: '127.0.0.1', port, mode: 'listen' }
    const subscriber = mqttDriver.create('down', options, { ...context, identity })
    const got = []
    subscriber.onPacket((packet, origin) => {
      if (isReadings(packet)) got.push(performance.now())
      origin.settle?.(true)
    })
    try {
      await pause(1000)
      await subscriber.open({ lost: reason => console.error(`latency: ${reason}`), degraded: () => undefined })
      const between = await counting(port)
      const uplink = { name: 'up', medium: 'MQTT', host: '127.0.0.1', port: between.port }
      await measure('mqtt', 9, uplink, got, between.counted)
      between.server.close()
    } finally {
      await subscriber.close()
      broker.kill()
      rmSync(dir, { recursive: true, force: true })
    }
  }

  /**
   * One source polled with that interval, alone on the machine: the readings that arrived at the upstream, and the cost
   * of each.
   */
  async function polled(name, aid, interval_ms) {
    const got = []
    const modbus = await modbusServer(() => undefined)
    const upstream = await udpUpstream(time => got.push(time))
    const uplink = { name: 'up', medium: 'UDP', host: '127.0.0.1', port: upstream.address().port }
    const run = await gateway(aid, plc(modbus.address().port, interval_ms), uplink)
    modbus.close()
    upstream.close()
    const readings = REGISTERS * got.filter(time => time >= run.from && time < run.to).length
    if (readings === 0) problems.push(`gateway/${name}: no packet came to the upstream; the gateway said:\n${run.said}`)
    return {
      ms: Math.round((run.cpuMs / readings) * 10_000) / 10_000,
      perS: Math.round((readings * 1000) / (run.to - run.from)),
    }
  }

  const once = ['latency/', 'flash_bytes_per_reading/', 'wakeups_per_s/', 'bytes_per_reading/mqtt']
  if (once.some(starts) || wanted('gateway/cpu_ms_per_reading/40')) {
    const ways = [overUdp(), idle()]
    if (existsSync(MOSQUITTO)) ways.push(overMqtt())
    else console.log('latency/mqtt: not measured, this machine has no mosquitto')
    await Promise.all(ways)
  }
  if (wanted('gateway/cpu_ms_per_reading/400'))
    put('gateway/cpu_ms_per_reading/400', (await polled('400', 12, TENTH_MS)).ms)
  if (['gateway/cpu_ms_per_reading/max', 'gateway/readings_per_s/max'].some(wanted)) {
    const { ms, perS } = await polled('max', 11, HIGHEST_MS)
    mark('gateway/cpu_ms_per_reading/max', ms, '≤ 0.03')
    mark('gateway/readings_per_s/max', perS, '≥ 6000')
  }
}
