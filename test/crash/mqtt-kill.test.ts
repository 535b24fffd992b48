// PUBACK after the commit (decision 0021): a receiver with a persistent session is killed at any moment, repeatedly, while packets
// stream in. Only the first packet of each template is a FULL and every other builds on the one before it, so one lost
// packet, or one forgotten template, would affect all later ones. In the end every packet that the broker accepted is in
// the log once, with the values that were sent.
// Long: more kills, every QoS with every version
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { systemClock } from '../../src/lib/clock'
import { silentLogger } from '../../src/lib/logger'
import { createMqtt } from '../../src/media/mqtt'
import { UplinkEncoder } from '../../src/pipeline/sender'
import { resolve } from '../../src/units/canonical'
import { wireUnits } from '../../src/units/wire'
import { COMMAND } from '../../src/wire/commands'
import { askControl } from '../lib/control'
import { freePort, freeUdpPort, Machine, removeDir, sensorsOf, sleep, tempDir, until } from '../lib/gateway'
import { prng, rounds } from '../lib/random'
import { startMosquitto } from '../lib/servers'

const units = { ...wireUnits(), resolve }
const T0 = 1_710_000_000_001
const ROUNDS = rounds(2, 5)
/** packets of a round, so that a machine with slow starts has no more to do */
const MOST = 800
const AIDS = [7, 8, 9]

// killed on purpose, repeatedly: no reason to distrust the configuration
process.env.OS_NODE_SAFE_MODE = 'off'

const dir = tempDir()
const machines: Machine[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  removeDir(dir)
})

/** The values of packet k: each sensor changes at its own rate. */
const values = (k: number): number[] => [k, 100 + Math.floor(k / 7), 5000 + Math.floor(k / 50)]

const KINDS = [
  [1, 5],
  [2, 4],
  [1, 4],
  [2, 5],
] as const

for (const [qos, version] of KINDS.slice(0, rounds(2, 4)))
  test(`QoS ${qos}, version ${version}: killed while packets stream in, every packet is in the log once`, async t => {
    const random = prng(qos * 10 + version)
    const broker = await startMosquitto({ lines: ['max_queued_messages 0'] })
    t.after(() => broker.stop())
    const web = await freePort()
    const link = { medium: 'MQTT', host: '127.0.0.1', port: broker.port, qos, protocol_version: version }
    const server = new Machine(join(dir, `up-${qos}-${version}`), 'serve', {
      device_id: 'SERVER',
      RESOURCES: { application_status: { mqtt: true } },
      gateway: { receivers: [{ name: 'mqtt', ...link }] },
    })
    machines.push(server)
    const args = ['--host', '127.0.0.1', '--port', String(await freeUdpPort()), '--web-port', String(web)]
    const { token } = server.json('token', '--new') as { token: string }
    await server.start(args, web)
    const status = () => askControl(server.dataDir, 'status')
    await until('the receiver is up', async () => (await status()).links.mqtt.state === 'up')

    const identity = { aid: 7, installId: 'gateway00001', onAssigned: () => () => undefined }
    const up = createMqtt('up', link, { clock: systemClock, logger: silentLogger, identity })
    t.after(() => up.close())
    let nacks = 0
    up.onPacket(packet => {
      if (packet[0] === COMMAND.HANDSHAKE_NACK) nacks++
    })
    let lost = ''
    await up.open({ lost: reason => (lost = reason), degraded: () => undefined })
    const encoders = AIDS.map(
      aid => new UplinkEncoder({ aid, units, diffBase: 'last', fullEvery: 1_000_000, fullIntervalS: 1_000_000 }),
    )
    let sent = 0
    let most = MOST
    let running = true
    const stream = (async () => {
      while (running) {
        for (let n = Math.floor(random() * 12); n > 0 && sent < most; n--) {
          sent++
          for (const [i, encoder] of encoders.entries()) {
            const sensors = values(sent).map((value, s) => ({ id: `s${s}`, status: 'OK', unit: 'K', value }))
            const fact = { id: `D${AIDS[i]}`, state: 'ONLINE', tRaw: T0 + 7 * sent, aid: AIDS[i]!, sensors }
            void up.send(Buffer.from(encoder.encode(fact).bytes)).then(taken => assert.ok(taken))
          }
        }
        await sleep(4)
      }
    })()
    for (let round = 0; round < ROUNDS; round++) {
      await sleep(50 + Math.floor(random() * 400))
      await server.stop('SIGKILL')
      await sleep(random() * 200)
      await server.start(args, web)
      most += MOST
    }
    running = false
    await stream
    const expected = AIDS.length * sent
    await until('everything is in the view', async () => {
      const headers = { 'X-Admin-Token': token }
      const answer = await fetch(`http://127.0.0.1:${web}/api/data/packets?limit=1`, { headers })
      return ((await answer.json()) as { total: number }).total >= expected
    })
    const { received } = await status()
    await server.stop('SIGTERM')
    assert.equal(lost, '', 'the sender had no trouble of its own')

    assert.ok(sent > 200, `${sent} packets`)
    const logged = server.logFacts().filter(fact => fact.id.startsWith('D'))
    const times = new Map<string, number[]>(AIDS.map(aid => [`D${aid}`, []]))
    for (const fact of logged) {
      times.get(fact.id)!.push(fact.t_raw)
      assert.deepEqual(
        sensorsOf(fact).map(sensor => sensor.value),
        values((fact.t_raw - T0) / 7),
        `values of ${fact.id} at ${fact.t_raw}`,
      )
    }
    const wanted = Array.from({ length: sent }, (_, k) => T0 + 7 * (k + 1))
    for (const [id, list] of times) assert.deepEqual(list, wanted, `${id}: every packet once, in order`)
    assert.equal(received.refused, 0, 'nothing could not be decoded')
    assert.equal(received.late_dropped, 0)
    assert.equal(nacks, 0, 'nothing was requested again')
  })
