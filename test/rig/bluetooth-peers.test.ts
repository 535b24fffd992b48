// A receiver with several peers on a virtual radio: two boards with the C firmware, one named by its address and one by its
// name, are connected at the same time; FULL, DIFF and HEART of both are decoded, each with where it came from. One that goes
// away is told and does not disturb the other.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { systemClock } from '../../src/lib/clock'
import { silentLogger } from '../../src/lib/logger'
import { LineMedium } from '../../src/links/line/medium'
import { systemTimers } from '../../src/links/timers'
import { exportFacts } from '../../src/log'
import { COMMAND } from '../../src/wire/commands'
import { adapterAddress, plugInAdapters, UartDevice, unplugAdapters } from '../lib/ble'
import { askControl } from '../lib/control'
import { type LoggedFact, Machine, sensorsOf, until } from '../lib/gateway'
import { peerFrame, peerText } from '../lib/peer'
import { inTheRig } from '../lib/rig'

const { DATA_FULL: FULL, DATA_DIFF: DIFF, DATA_HEART: HEART } = COMMAND
const kelvin = (value: number): string => peerText(BigInt(Math.round(value * 10_000)))
const slot = (text: string): Buffer => Buffer.concat([Buffer.of(text.length), Buffer.from(text)])

class Board {
  readonly device: UartDevice
  readonly aid: number
  readonly line: LineMedium

  constructor(name: string, adapter: number) {
    this.aid = 70 + adapter
    this.device = new UartDevice(name, adapter)
    this.line = new LineMedium(this.device, {
      medium: 'UART',
      framing: 'uart',
      maxPacket: 512,
      clock: systemClock,
      timers: systemTimers,
      logger: silentLogger,
      gapMs: 500,
    })
  }

  /** A reading at `second` by one of the three commands. */
  async send(cmd: number, second: number, value = 0): Promise<void> {
    const body =
      cmd === FULL
        ? `NODE.ONLINE.${second}|T${this.aid}>OK.K:${kelvin(value)}|`
        : cmd === DIFF
          ? Buffer.concat([Buffer.of(2), slot(kelvin(value))])
          : ''
    assert.equal(await this.line.send(peerFrame(cmd, [this.aid], 9, second, body)), true)
  }
}

inTheRig(
  () => {
    const boards = [new Board('garden', 1), new Board('porch', 2)] as const
    const [garden, porch] = boards
    const hub = new Machine('/run/hub', 'run', {
      device_id: 'HUB',
      assigned_id: 11,
      gateway: {
        log: { commit_interval_ms: 200 },
        sources: [],
        receivers: [
          {
            name: 'boards',
            medium: 'Bluetooth',
            peers: [adapterAddress(1).toUpperCase(), 'porch'],
            find_timeout_ms: 5000,
          },
        ],
      },
      RESOURCES: { physical_status: { bluetooth: true } },
    })
    // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command gives
    const link = async (): Promise<any> => (await askControl(hub.dataDir, 'status')).links.boards
    const facts = (id: string): LoggedFact[] =>
      ([...exportFacts(join(hub.dataDir, 'log'), 1)] as unknown as LoggedFact[]).filter(
        fact => sensorsOf(fact)[0]?.id === id,
      )

    before(async () => {
      await plugInAdapters(3)
      for (const { line } of boards) await line.open({ lost: () => undefined, degraded: () => undefined })
    })
    after(async () => {
      await hub.stop()
      for (const { line } of boards) await line.close()
      await unplugAdapters()
      setTimeout(() => process.exit(), 1000).unref() // the devices' library leaves something open
    })

    test('both are connected at once', async () => {
      await hub.start([])
      const { detail, state, reason } = await until('both are there', async () => {
        const seen = await link()
        return seen.detail.connected === 2 && seen.state === 'up' ? seen : undefined
      }).catch(async error => {
        throw new Error(`${error.message} ${JSON.stringify(await link())}`)
      })
      assert.deepEqual([detail.peers, state, reason], [2, 'up', undefined])
      assert.ok(garden.device.connected && porch.device.connected)
    })

    test('FULL, DIFF and HEART of C firmware come from both, with the address they came from', async () => {
      const second = Math.floor(Date.now() / 1000) - 60
      for (const board of boards) await board.send(FULL, second, 290 + board.aid)
      await Promise.all(boards.map(board => board.send(DIFF, second + 1, 291 + board.aid)))
      await Promise.all(boards.map(board => board.send(HEART, second + 2)))
      for (const { aid } of boards) {
        const told = await until('three facts', () => {
          const found = facts(`T${aid}`)
          return found.length === 3 ? found : undefined
        })
        assert.deepEqual(
          told.map(fact => [fact.t_raw, sensorsOf(fact)[0]!.value, fact.address]),
          [
            [second * 1000, 290 + aid, adapterAddress(aid - 70)],
            [(second + 1) * 1000, 291 + aid, adapterAddress(aid - 70)],
            [(second + 2) * 1000, 291 + aid, adapterAddress(aid - 70)],
          ],
        )
      }
    })

    test('one that goes away is told and missed by nobody else; back again, it is connected by itself', async () => {
      const second = Math.floor(Date.now() / 1000)
      const connections = garden.device.connections
      await porch.device.vanish()
      const { reason } = await until('it is missed', async () => {
        const seen = await link()
        return seen.state === 'degraded' ? seen : undefined
      })
      assert.match(reason, /1 of 2 peers connected; .*porch/)
      await garden.send(FULL, second, 300)
      await until('the other goes on', () => facts(`T${garden.aid}`).some(fact => fact.t_raw === second * 1000))
      await porch.device.advertise()
      await until('both again', async () => (await link()).detail.connected === 2)
      await porch.send(FULL, second, 301)
      await until('it is heard', () => facts(`T${porch.aid}`).some(fact => fact.t_raw === second * 1000))
      assert.equal(garden.device.connections, connections, 'the other was not touched')
    })
  },
  { seconds: 110 },
)
