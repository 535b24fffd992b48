// Packets over the Nordic UART service on a virtual radio. This process is the device on hci1: it extracts packets from
// their frames and forwards them by UDP, so that a complete os-node is behind it. The gateway on hci0 sends to it and
// receives from it, with acknowledgements (X29); connections are cut and return.
// Needs: bluetooth
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { systemClock } from '../../src/lib/clock'
import { silentLogger } from '../../src/lib/logger'
import { systemTimers } from '../../src/lib/timers'
import { LineMedium } from '../../src/links/line/medium'
import { exportFacts } from '../../src/log'
import { COMMAND } from '../../src/wire/commands'
import { adapterAddress, plugInAdapters, UartDevice, unplugAdapters } from '../lib/ble'
import { askControl } from '../lib/control'
import { keyOf, type LoggedFact, Machine, script, until } from '../lib/gateway'
import { peerFrame, peerText } from '../lib/peer'
import { inTheRig } from '../lib/rig'

/** answers of the hub to requests of the office */
const ANSWERS: ReadonlySet<number> = new Set([
  COMMAND.ID_ASSIGN,
  COMMAND.ID_POOL_RES,
  COMMAND.HANDSHAKE_ACK,
  COMMAND.HANDSHAKE_NACK,
  COMMAND.PONG,
  COMMAND.TIME_RESPONSE,
  COMMAND.SECURE_DICT_READY,
  COMMAND.SECURE_CHANNEL_ACK,
])
const SERVER = 9301
const BRIDGE = 9302
const execute = promisify(execFile)
const flags = { physical_status: { bluetooth: true } }
const radio = { find_timeout_ms: 20_000, connect_timeout_ms: 60_000, max_packet: 400 }

const facts = (machine: Machine): LoggedFact[] => {
  try {
    return [...exportFacts(join(machine.dataDir, 'log'), 1)] as unknown as LoggedFact[]
  } catch {
    return [] // no log yet
  }
}
const keys = (machine: Machine, id: string): string[] =>
  facts(machine)
    .filter(fact => fact.id === id)
    .map(keyOf)

inTheRig(
  () => {
    const device = new UartDevice('office', 1)
    const line = new LineMedium(device, {
      medium: 'UART',
      framing: 'uart',
      maxPacket: 512,
      clock: systemClock,
      timers: systemTimers,
      logger: silentLogger,
      gapMs: 500,
    })
    const socket = createSocket('udp4')
    /** where packets received by radio are sent; answers to them go back over the radio */
    let towards = SERVER
    const hub = new Machine('/run/hub', 'run', {
      device_id: 'HUB',
      assigned_id: 11,
      gateway: {
        log: { commit_interval_ms: 200 },
        sources: [{ name: 'up', type: 'uptime', interval_ms: 300 }],
        uplinks: [{ name: 'air', medium: 'Bluetooth', peers: [adapterAddress(1)], ...radio }],
        receivers: [{ name: 'devices', medium: 'Bluetooth', peers: [adapterAddress(1)], ...radio }],
      },
      RESOURCES: { ...flags, physical_config: { bluetooth: { peers: [adapterAddress(1)], ...radio } } },
    })
    const office = new Machine('/run/office', 'run', {
      device_id: 'OFFICE',
      assigned_id: 12,
      RESOURCES: { service_plugins: { web_user: { port: 8770 } } },
      gateway: {
        log: { commit_interval_ms: 200 },
        sources: [{ name: 'up', type: 'uptime', interval_ms: 300 }],
        uplinks: [{ name: 'bridge', medium: 'UDP', host: '127.0.0.1', port: BRIDGE, max_packet: 380 }],
        receivers: [{ name: 'in', medium: 'UDP', host: '127.0.0.1', port: SERVER }],
      },
    })
    // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command gives
    const link = async (name: string): Promise<any> => (await askControl(hub.dataDir, 'status')).links[name]

    before(async () => {
      await plugInAdapters(2)
      await line.open({ lost: () => undefined, degraded: () => undefined })
      await new Promise<void>(resolve => socket.bind(BRIDGE, '127.0.0.1', resolve))
      // requests of the hub go to the office's receiver, answers to the office's requests go to its uplink
      line.onPacket(packet => {
        const answers = ANSWERS.has(packet[0]!)
        socket.send(packet.slice(), answers && towards !== SERVER ? towards : SERVER, '127.0.0.1')
      })
      socket.on('message', (packet, from) => {
        if (from.port !== SERVER) towards = from.port
        void line.send(packet)
      })
    })
    after(async () => {
      await Promise.all([hub.stop(), office.stop()])
      socket.close()
      await line.close()
      await unplugAdapters()
    })

    test('facts are sent in both directions over the radio, and each is acknowledged', async () => {
      await Promise.all([office.start([], 8770), hub.start([])])
      await until('the office has facts of the hub', () => keys(office, 'HUB').length > 8)
      await until('the hub has facts of the office', () => keys(hub, 'OFFICE').length > 8)
      const { uplinks } = await askControl(hub.dataDir, 'status')
      const [uplink] = Object.values(uplinks) as [{ delivery: string }]
      assert.equal(uplink.delivery, 'acked')
      assert.ok(
        Math.max(...device.pieces) > 20,
        `the MTU was negotiated: ${Math.max(...device.pieces)} bytes in a piece`,
      )
      const opens = Math.max((await link('air')).opens, (await link('devices')).opens)
      assert.ok(device.connections <= opens, 'the uplink and the receiver share a connection')
    })

    test('FULL, DIFF and HEART of C firmware are decoded, with the address of their sender', async () => {
      const say = (frame: Uint8Array): Promise<boolean> => until('it is sent', () => line.send(frame))
      // the times of its frames are in seconds; a FULL of one sensor has no head, and no later frame builds on it
      await say(peerFrame(COMMAND.DATA_FULL, [4711], 1, 1_710_000_000, 'T1|Cel|3Hs'))
      const body = `NODE.ONLINE.1710000001|T2>OK.K:${peerText(2_931_500n)}|`
      await say(peerFrame(COMMAND.DATA_FULL, [4712], 2, 1_710_000_001, body))
      const changed = peerText(2_941_500n)
      const diff = Buffer.concat([Buffer.of(2, changed.length), Buffer.from(changed)])
      await say(peerFrame(COMMAND.DATA_DIFF, [4712], 2, 1_710_000_002, diff))
      await say(peerFrame(COMMAND.DATA_HEART, [4712], 2, 1_710_000_003, ''))
      const told = await until('four facts', () => {
        const found = facts(hub).filter(({ s1_id }) => s1_id === 'T1' || s1_id === 'T2')
        return found.length === 4 ? found : undefined
      })
      assert.deepEqual(
        told.map(({ s1_id, s1_v, t_raw, address }) => [s1_id, Number(s1_v).toFixed(4), t_raw, address]),
        [
          ['T1', '274.5726', 1_710_000_000_000, adapterAddress(1)],
          ['T2', '293.1500', 1_710_000_001_000, adapterAddress(1)],
          ['T2', '294.1500', 1_710_000_002_000, adapterAddress(1)],
          ['T2', '294.1500', 1_710_000_003_000, adapterAddress(1)],
        ],
      )
    })

    test('dispatch sends a reading over the radio', async () => {
      const rows = JSON.stringify([['hand', 'OK', 7, '1']])
      const connections = device.connections
      // not awaited here: the device at the other end is this process
      const command = ['transmit', '--medium', 'Bluetooth', '--sensors', rows, '--device-id', 'HAND']
      await execute(process.execPath, [script, ...command, '--config', hub.config, '--data-dir', hub.dataDir])
      await until('it is present', () => keys(office, 'HAND').length === 1)
      assert.equal(device.connections, connections, 'over the connection that is open')
    })

    test('a cut connection returns, and no fact is missing', async () => {
      for (let round = 1; round <= 2; round++) {
        const connections = device.connections
        device.disconnect()
        await until('connected again', () => device.connections > connections)
      }
      const all = keys(hub, 'HUB')
      await until('all of them are there', () => {
        const there = new Set(keys(office, 'HUB'))
        return all.every(key => there.has(key))
      })
      await until('up', async () => (await link('devices')).state === 'up')
    })
  },
  { seconds: 600, forceExit: true },
)
