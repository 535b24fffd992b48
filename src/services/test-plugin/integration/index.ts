// The integration run: a node sends over UDP to a second process of this program, which receives, logs and answers queries;
// all on the loopback interface, in a temporary folder. Each step is a check; if one fails, those that depend on it fail too.

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { NodeBase } from '../../../node/node'
import type { Reading } from '../../../pipeline/fact'
import type { DeviceList, PacketDetail, PacketList, SensorList } from '../../../storage'
import { type Outcome, outcome, type PluginCheck, type RunOptions, runChecks } from '../checks'
import { exportFacts, verify } from '../program'
import { Server, sleep } from './server'

export type NodeClass = new (configPath: string | null) => NodeBase

const PACKETS = 25
const DEVICE = 'INTEGRATION-NODE'
const ARRIVAL_MS = 10_000

const readingsOf = (k: number): Reading[] => [
  ['T1', 'OK', 20 + k / 8, 'Cel'],
  ['P1', 'OK', 100 + k / 4, 'kPa'],
]

/** `script`: the file of the program. Throws TIMEOUT if the signal is aborted. */
export async function runIntegration(Node: NodeClass, script: string, options: RunOptions = {}): Promise<Outcome> {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-integration-'))
  const server = new Server(script, join(dir, 'server'), options.signal)
  const config = join(dir, 'Config.json')
  let node: NodeBase | undefined
  try {
    const steps = checks(server, () => {
      server.mustRun()
      node ??= openNode(Node, config, server.packetPort)
      return node
    })
    return outcome([await runChecks('integration', steps, options)])
  } finally {
    await node?.close()
    await server.stop()
    rmSync(dir, { recursive: true, force: true })
  }
}

function openNode(Node: NodeClass, path: string, port: number): NodeBase {
  writeFileSync(
    path,
    JSON.stringify({
      device_id: DEVICE,
      Client_Core: { server_host: '127.0.0.1', server_port: port },
      RESOURCES: { transport_status: { udp: true }, transport_config: { udp: { host: '127.0.0.1', port } } },
    }),
  )
  return new Node(path)
}

function checks(server: Server, node: () => NodeBase): PluginCheck[] {
  const packetsOf = async (query = ''): Promise<PacketList> =>
    (await server.get(`/api/data/packets?device_id=${DEVICE}&limit=500${query}`)) as unknown as PacketList
  return [
    ['os-node serve starts and answers', () => server.start()],
    [
      'the node gets an id from it',
      async () => assert.equal(await node().ensureId('127.0.0.1', server.packetPort), true),
    ],
    [
      'and its time',
      async () => {
        const time = await node().ensureTime('127.0.0.1', server.packetPort)
        assert.ok(time !== null && Math.abs(time - Date.now() / 1000) < 60, `server time ${time}`)
      },
    ],
    [
      `${PACKETS} packets go out over UDP: FULL, then DIFF`,
      async () => {
        const strategies: string[] = []
        for (let k = 0; k < PACKETS; k++) {
          const [packet, , strategy] = node().transmit(readingsOf(k))
          strategies.push(strategy)
          assert.equal(await node().dispatch(packet, 'UDP'), true, node().lastError?.message)
        }
        assert.equal(strategies[0], 'FULL_PACKET')
        assert.equal(strategies.at(-1), 'DIFF_PACKET')
      },
    ],
    [
      'all of them are received, logged and in the database',
      async () => {
        let total = 0
        for (let waited = 0; total < PACKETS && waited < ARRIVAL_MS; waited += 100) {
          total = (await packetsOf()).total
          if (total < PACKETS) await sleep(100, server.signal)
        }
        assert.equal(total, PACKETS)
      },
    ],
    [
      'the newest packet holds what was sent, in canonical units',
      async () => {
        const { packets } = await packetsOf()
        const [celsius, kilopascal] = readingsOf(PACKETS - 1).map(([, , value]) => value)
        const detail = (await server.get(`/api/data/packets/${packets[0]!.packet_uuid}`)) as unknown as PacketDetail
        assert.deepEqual(
          detail.sensors.map(sensor => [sensor.sensor_id, sensor.normalized_unit]),
          [
            ['T1', 'K'],
            ['P1', 'Pa'],
          ],
        )
        const [kelvin, pascal] = detail.sensors.map(sensor => sensor.normalized_value!)
        assert.ok(Math.abs(kelvin! - (celsius! + 273.15)) < 1e-3, `${kelvin} K`)
        assert.ok(Math.abs(pascal! - kilopascal! * 1000) < 1e-3, `${pascal} Pa`)
      },
    ],
    [
      'devices and sensors are counted',
      async () => {
        const { devices } = (await server.get('/api/data/devices')) as unknown as DeviceList
        assert.equal(devices.find(({ device_id }) => device_id === DEVICE)?.packet_count, PACKETS)
        const query = `/api/data/sensors?device_id=${DEVICE}&sensor_id=T1`
        const { total } = (await server.get(query)) as unknown as SensorList
        assert.equal(total, PACKETS)
      },
    ],
    ['the server stops in order', async () => assert.equal(await server.stop(), 0)],
    [
      'its log is sound and holds every fact once',
      () => {
        const dir = join(server.dataDir, 'log')
        assert.equal(verify(dir).ok, true)
        const facts = [...exportFacts(dir, 1)].filter(({ id }) => id === DEVICE)
        assert.equal(facts.length, PACKETS)
      },
    ],
  ]
}
