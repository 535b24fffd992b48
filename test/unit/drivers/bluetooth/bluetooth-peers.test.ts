// A receiver with several peers on a simulated radio: all are connected at the same time, and each connects, disconnects
// and sends independently. (The rig has only one: its virtual radio misnumbers a second connection.)
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBluetooth } from '../../../../drivers/bluetooth'
import { Adapter } from '../../../../drivers/bluetooth/adapter'
import type { BleConnection, BleConnectOptions, BleRadio, RadioEvents } from '../../../../drivers/bluetooth/radio'
import { silentLogger } from '../../../../src/lib/logger'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { peerFrame } from '../../../lib/peer'

const GARDEN = '00:00:00:00:00:01'
const PORCH = '00:00:00:00:00:02'

class ManyRadio implements BleRadio {
  readonly detail = {}
  readonly connected = new Map<string, BleConnectOptions>()
  #events: RadioEvents | undefined

  async open(events: RadioEvents): Promise<void> {
    this.#events = events
  }
  async close(): Promise<void> {
    this.#events = undefined
  }
  async startScan(): Promise<void> {}
  async stopScan(): Promise<void> {}
  async reset(): Promise<boolean> {
    return this.connected.size === 0
  }
  async connect(options: BleConnectOptions): Promise<BleConnection> {
    this.connected.set(options.address, options)
    return {
      mtu: 247,
      rssi: options.rssi,
      writes: { withResponse: true, withoutResponse: true },
      write: async () => undefined,
      disconnect: () => this.cut(options.address),
    }
  }
  cut(address: string): void {
    const options = this.connected.get(address)
    if (this.connected.delete(address)) options?.onLost('out of reach')
  }
  hear(address: string, name = ''): void {
    const data = Buffer.concat([Buffer.of(name.length + 1, 9), Buffer.from(name)])
    this.#events?.report({ address, addressType: 'random', data, rssi: address === GARDEN ? -40 : -80 })
  }
}

test('several peers are connected at the same time, by address and by name; one that disconnects does not affect the others', async () => {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const radio = new ManyRadio()
  const adapter = new Adapter({ name: 'hci0', radio, clock, timers, logger: silentLogger })
  const context = { clock, logger: silentLogger }
  const options = { mode: 'listen', peers: [GARDEN, 'porch'], find_timeout_ms: 60_000 }
  const medium = createBluetooth('boards', options, context, { adapter, timers })
  const told: string[] = []
  const came: unknown[] = []
  medium.onPacket((packet, origin) => {
    came.push([packet[6], origin?.address, origin?.rssi])
  })
  const say = (address: string, tid: number): void =>
    radio.connected
      .get(address)
      ?.onData(Buffer.concat([Buffer.of(2), peerFrame(0x3f, [7], tid, 1, 'T|K|1'), Buffer.of(3)]))
  const hearBoth = async (): Promise<void> => {
    for (let k = 0; k < 20; k++) {
      radio.hear(GARDEN)
      radio.hear(PORCH, 'porch')
      await timers.advance(500)
    }
  }

  await medium.open({ lost: why => told.push(`lost ${why}`), degraded: why => told.push(why) })
  assert.match(told.at(-1)!, /^0 of 2 peers connected; looking for/)
  await hearBoth()
  assert.deepEqual([...radio.connected.keys()].sort(), [GARDEN, PORCH])
  assert.equal(told.at(-1), '')
  assert.equal(medium.counters.detail?.connected, 2)
  say(GARDEN, 1)
  say(PORCH, 2)
  await timers.advance(1000)
  assert.deepEqual(came, [
    [1, GARDEN, -40],
    [2, PORCH, -80],
  ])
  assert.equal(await medium.send(new Uint8Array(9)), false, 'a receiver sends answers only')
  const { rx, tx } = medium.counters
  assert.deepEqual([rx, tx], [2, 0])

  radio.cut(PORCH)
  await timers.advance(1)
  assert.equal(told.at(-1), '1 of 2 peers connected; out of reach')
  say(GARDEN, 3)
  await timers.advance(1000)
  assert.deepEqual(came.at(-1), [3, GARDEN, -40])
  await hearBoth()
  say(PORCH, 4)
  await timers.advance(1000)
  assert.deepEqual([came.at(-1), told.at(-1)], [[4, PORCH, -80], ''])
  await medium.close()
  assert.equal(radio.connected.size, 0)
})

test('an adapter lost and reopened a hundred times leaves no listeners behind', async () => {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const radio = new ManyRadio()
  const adapter = new Adapter({ name: 'hci0', radio, clock, timers, logger: silentLogger })
  const context = { clock, logger: silentLogger }
  const medium = createBluetooth('again', { mode: 'listen', peers: [GARDEN, PORCH] }, context, { adapter, timers })
  const events = { lost: () => undefined, degraded: () => undefined }
  const open = async (): Promise<number> => {
    await medium.open(events)
    await timers.advance(2000)
    const { listeners } = adapter
    await medium.close()
    await timers.advance(2000)
    assert.equal(adapter.listeners, 0)
    return listeners
  }
  const first = await open()
  for (let k = 0; k < 100; k++) assert.equal(await open(), first)
  assert.ok(first > 0)
})
