// MQTT QoS 1 through a real mosquitto, DIFFs of one reading: packets a second until PUBACK, and from the publish until the receiver has
// decoded them, its log has committed them and it has acknowledged. Every value is compared with its input. Not measured where this
// machine has no mosquitto; that is printed.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const MOSQUITTO = '/usr/sbin/mosquitto'
const COUNT = 20_000
const MARK = 40_000
const AID = 7
const readingOf = k => 280 + ((k * 7919) % 1e5) / 1e4

const freePort = () =>
  new Promise(resolve => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })

const events = { lost: reason => console.error(`mqtt: ${reason}`), degraded: () => undefined }
const perSecond = (count, since) => Math.round((count / (performance.now() - since)) * 1000)

/**
 * The used parts of the built library, and a `context`; `put(key, value)` records every figure, `mark(key, value, hoped)` the rate of the
 * log.
 */
export async function benchMqtt(
  { mqttDriver, FlashLog, Receiver, UplinkEncoder, units, context },
  { put, mark, problems },
) {
  if (!existsSync(MOSQUITTO)) {
    console.log('mqtt: not measured, this machine has no mosquitto')
    return
  }
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-mqtt-'))
  const port = await freePort()
  writeFileSync(
    join(dir, 'conf'),
    `listener ${port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\nmax_queued_messages 0\nlog_type none\n`,
  )
  const broker = spawn(MOSQUITTO, ['-c', join(dir, 'conf')], { stdio: 'ignore' })
  const identity = { aid: AID, installId: 'bench0000001', onAssigned: () => () => undefined }
  const make = (name, options) =>
    mqttDriver.create(name, { host: '127.0.0.1', port, ...options }, { ...context, identity })
  const up = make('up', {})
  const down = make('down', { mode: 'listen' })
  const log = await FlashLog.open({ dir: join(dir, 'log') })
  try {
    for (let tries = 0; ; tries++) {
      try {
        await up.open(events)
        break
      } catch (error) {
        if (tries > 50) throw error
        await new Promise(resolve => setTimeout(resolve, 50))
      }
    }
    const uplink = new UplinkEncoder({ aid: AID, units, diffBase: 'last', fullEvery: 0, fullIntervalS: 0 })
    const packets = Array.from({ length: COUNT }, (_, k) => {
      const sensors = [{ id: 's', status: 'OK', unit: 'K', value: readingOf(k) }]
      return Buffer.from(
        uplink.encode({ id: 'D', state: 'ONLINE', tRaw: 1_710_000_000_000 + k, aid: AID, sensors }).bytes,
      )
    })
    const send = async () => {
      const acked = []
      for (const packet of packets) {
        acked.push(up.send(packet))
        if (acked.length % 1000 === 0) await acked.at(-1)
      }
      if ((await Promise.all(acked)).includes(false)) throw new Error('the broker refused a packet')
    }
    let since = performance.now()
    await send()
    put('mqtt/puback/qos1', perSecond(COUNT, since))

    let settled = 0
    let unsettled = 0
    let done
    const all = new Promise(resolve => {
      done = resolve
    })
    const receiver = new Receiver({ units })
    let came = 0
    down.onPacket((packet, origin) => {
      const { fact } = receiver.receive(packet)
      const value = fact?.sensors[0].value
      if (!(Math.abs(value - readingOf(came++)) < 1e-4) && problems.length < 5)
        problems.push(`mqtt/committed: packet ${came - 1} decoded to ${value}`)
      const seq = log.appendFact(fact, { medium: 'MQTT' })
      if (++unsettled >= 16) void log.flush()
      void log.committed(seq).then(() => {
        unsettled--
        origin.settle(true)
        if (++settled === COUNT) done()
      })
    })
    await down.open(events)
    since = performance.now()
    await send()
    await all
    mark('mqtt/committed/qos1', perSecond(COUNT, since), `≥ ${MARK}`)
  } finally {
    await up.close()
    await down.close()
    await log.close()
    broker.kill()
    rmSync(dir, { recursive: true, force: true })
  }
}
