// MQTT QoS 1 through a real mosquitto: packets a second until PUBACK, and from the publish until the receiver's log has
// committed them and acknowledged. Not measured where this machine has no mosquitto; that is printed.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const MOSQUITTO = '/usr/sbin/mosquitto'
const COUNT = 20_000
const PACKET = Buffer.alloc(40, 0x55)

const freePort = () =>
  new Promise(resolve => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })

const events = { lost: reason => console.error(`mqtt: ${reason}`), degraded: () => undefined }
const perSecond = (count, since) => Math.round((count / (performance.now() - since)) * 1000)

/** `createMqtt`, `FlashLog` and `context` of the built library; `put(key, value)` takes every figure. */
export async function benchMqtt({ mqttDriver, FlashLog, context }, put) {
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
  const identity = { aid: 7, installId: 'bench0000001', onAssigned: () => () => undefined }
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
    const send = async () => {
      const acked = []
      for (let k = 0; k < COUNT; k++) {
        acked.push(up.send(PACKET))
        if (k % 1000 === 999) await acked.at(-1)
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
    down.onPacket((_packet, origin) => {
      const sensors = [{ id: 's', status: 'OK', unit: 'K', value: settled }]
      const seq = log.appendFact({ id: 'D', state: 'ONLINE', tRaw: Date.now(), aid: 7, sensors }, { medium: 'MQTT' })
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
    put('mqtt/committed/qos1', perSecond(COUNT, since))
  } finally {
    await up.close()
    await down.close()
    await log.close()
    broker.kill()
    rmSync(dir, { recursive: true, force: true })
  }
}
