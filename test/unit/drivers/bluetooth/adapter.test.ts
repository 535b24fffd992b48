// The adapter without a radio: who shares it, when it scans, and how it reacts to silence (R20).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { advertisementSources, createBluetooth } from '../../../../drivers/bluetooth'
import { Adapter } from '../../../../drivers/bluetooth/adapter'
import { sharedAdapter } from '../../../../drivers/bluetooth/adapters'
import type { BleConnection, BleConnectOptions, BleRadio, RadioEvents } from '../../../../drivers/bluetooth/radio'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import { ManualClock, ManualTimers } from '../../../lib/manual'

const PEER = 'a4:c1:38:8d:18:b2'

class FakeRadio implements BleRadio {
  readonly detail = {}
  readonly did: string[] = []
  events: RadioEvents | undefined
  fails: OsError | undefined
  written: { bytes: number; response: boolean }[] = []
  peer: BleConnectOptions | undefined

  async open(events: RadioEvents): Promise<void> {
    this.did.push('open')
    if (this.fails) throw this.fails
    this.events = events
  }
  async close(): Promise<void> {
    this.did.push('close')
    this.events = undefined
  }
  async startScan(): Promise<void> {
    this.did.push('scan')
  }
  async stopScan(): Promise<void> {
    this.did.push('stop')
  }
  async reset(): Promise<boolean> {
    this.did.push('reset')
    return this.peer === undefined
  }
  async connect(options: BleConnectOptions): Promise<BleConnection> {
    this.did.push('connect')
    this.peer = options
    return {
      mtu: 103,
      rssi: -50,
      writes: { withResponse: true, withoutResponse: true },
      write: async (bytes, response) => {
        this.written.push({ bytes: bytes.length, response })
      },
      disconnect: () => {
        this.peer = undefined
        options.onLost('ended')
      },
    }
  }
  hear(address = PEER, data = new Uint8Array()): void {
    this.events?.report({ address, addressType: 'random', data, rssi: -60 })
  }
}

function world() {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const radio = new FakeRadio()
  const adapter = new Adapter({ name: 'hci0', radio, clock, timers, logger: silentLogger })
  const told: string[] = []
  const user = { lost: (why: string) => told.push(`lost ${why}`), degraded: (why: string) => told.push(why) }
  const took = (): string[] => radio.did.splice(0)
  return { clock, timers, radio, adapter, told, user, took }
}
const listening = { lost: () => undefined, degraded: () => undefined }

test('the first user opens the adapter, the last closes it, and it scans while a user listens', async () => {
  const { adapter, radio, timers, user, took } = world()
  const other = { ...listening }
  await Promise.all([adapter.join(user), adapter.join(other)])
  assert.deepEqual(took(), ['open'])
  const end = adapter.listen(PEER, () => undefined)
  await timers.advance(1)
  assert.deepEqual(took(), ['scan'])
  end()
  await timers.advance(1)
  assert.deepEqual(took(), ['stop'])
  await adapter.leave(user)
  assert.deepEqual(took(), [])
  await adapter.leave(other)
  assert.deepEqual([took(), radio.events], [['close'], undefined])
})

test('on silence the scan restarts, then the adapter is reset, then reopened, each after the same interval; after that the interval doubles', async () => {
  const { adapter, timers, user, told, took, radio } = world()
  await adapter.join(user, { silenceMs: 10_000 })
  adapter.listen(PEER, () => undefined)
  await timers.advance(9_999)
  assert.deepEqual(took(), ['open', 'scan'])
  await timers.advance(10_000)
  assert.deepEqual(took(), ['stop', 'scan'])
  assert.match(told.at(-1)!, /no advertisement for 10 s/)
  await timers.advance(10_000)
  assert.deepEqual(took(), ['reset', 'scan'])
  await timers.advance(10_000)
  assert.deepEqual(took().slice(0, 3), ['reset', 'close', 'open'])
  await timers.advance(9_000)
  assert.deepEqual(took(), [], 'now it has twice the time')
  await timers.advance(2_000)
  assert.deepEqual(took(), ['stop', 'scan'])
  radio.hear('11:22:33:44:55:66')
  assert.equal(told.at(-1), '', 'anything that is heard ends it')
  assert.equal(adapter.detail.scan_restarts, 2)
})

test('a library that cannot reopen is a lost link, and the next user opens it again', async () => {
  const { adapter, timers, user, told, took, radio } = world()
  await adapter.join(user, { silenceMs: 1000 })
  adapter.listen(PEER, () => undefined)
  radio.fails = new OsError('NOT_FOUND', 'no adapter')
  await timers.advance(3500)
  assert.equal(told.at(-1), 'lost no adapter')
  radio.fails = undefined
  took()
  await adapter.join(user)
  assert.equal(took().at(0), 'open')
})

test('thousands of unknown addresses leave nothing in memory', async () => {
  const { adapter, user, radio } = world()
  await adapter.join(user)
  let heard = 0
  adapter.listen(PEER, () => heard++)
  for (let n = 0; n < 5000; n++) radio.hear(`00:00:00:00:${(n >> 8).toString(16)}:${(n & 255).toString(16)}`)
  radio.hear()
  assert.deepEqual([heard, adapter.listeners, adapter.detail.advertisements], [1, 1, 5001])
})

test('a packet is split at the MTU, and only its last piece waits for a response', async () => {
  const { adapter, timers, clock, radio } = world()
  const medium = createBluetooth(
    'air',
    { peers: [PEER.toUpperCase()] },
    { clock, logger: silentLogger },
    { adapter, timers },
  )
  const lost: string[] = []
  const opening = medium.open({ lost: why => lost.push(why), degraded: () => undefined })
  await timers.advance(1)
  radio.hear()
  await timers.advance(1)
  await opening
  assert.equal(await medium.send(new Uint8Array(248).fill(0x7f)), true)
  assert.deepEqual(radio.written, [
    { bytes: 100, response: false },
    { bytes: 100, response: false },
    { bytes: 50, response: true },
  ])
  radio.peer!.onLost('out of reach')
  assert.deepEqual(lost, ['out of reach'])
  await medium.close()
})

test('a peer that is not heard is reported', async () => {
  const { adapter, timers, clock, radio } = world()
  const options = { peers: ['office'], find_timeout_ms: 1000 }
  const medium = createBluetooth('air2', options, { clock, logger: silentLogger }, { adapter, timers })
  const opening = assert.rejects(
    medium.open({ lost: () => undefined, degraded: () => undefined }),
    /office is not heard/,
  )
  await timers.advance(1500)
  await opening
  // watched while the peer is down, and no longer
  const before = adapter.listeners
  let back = 0
  const end = medium.onReturn!(() => back++)
  await timers.advance(1)
  const name = Uint8Array.of(7, 9, ...Buffer.from('office'))
  radio.hear(PEER, name)
  assert.ok(back > 0)
  end()
  const heard = back
  radio.hear(PEER, name)
  assert.deepEqual([back, adapter.listeners], [heard, before])
})

test('invalid options are refused with their key', () => {
  const { adapter, timers, clock } = world()
  const make = (options: unknown) => () =>
    createBluetooth('air', options, { clock, logger: silentLogger }, { adapter, timers })
  assert.throws(make({}), /peers: list them/)
  assert.throws(make({ peers: ['a', 'b'] }), /one peer/)
  assert.throws(make({ peers: ['a', 'A'] }), /twice/)
  assert.throws(make({ mode: 'udp_shim', host: 'somewhere' }), /IP address/)
})

test('a source test waits 12 s for all channels together: a late one does not hide those that were heard', async () => {
  const { adapter, radio, timers, clock } = world()
  const options = { address: PEER, channels: { temperature: {}, door: {} } }
  const source = advertisementSources.bthome.create(
    'room',
    options,
    { clock, logger: silentLogger },
    { adapter, timers },
  )
  await source.open(listening)
  let rows: readonly { sensor_id: string; raw?: string; value: number | null; error?: string }[] | undefined
  void source.readRaw().then(all => {
    rows = all
  })
  await timers.advance(9000)
  // temperature 25.06, no door
  radio.hear(PEER, Uint8Array.of(7, 0x16, 0xd2, 0xfc, 0x40, 0x02, 0xca, 0x09))
  await timers.advance(2999)
  assert.equal(rows, undefined)
  await timers.advance(1)
  assert.deepEqual(
    rows!.slice(0, 2).map(({ sensor_id, raw, value, error }) => [sensor_id, raw, value, error]),
    [
      ['room_temperature', '0716d2fc4002ca09', 25.06, undefined],
      ['room_door', '', null, 'was not heard yet'],
    ],
  )
  await source.close()
})

test('one adapter scans in one mode: a user that requests the other is refused with the reason', async () => {
  const { clock, user, radio, took } = world()
  const context = { clock, logger: silentLogger }
  const plain = sharedAdapter('hci9', false, context, radio)
  const extended = sharedAdapter('hci9', true, context, radio)
  assert.equal(sharedAdapter('hci9', true, context, radio), extended)
  await plain.join(user)
  await assert.rejects(extended.join(listening), {
    code: 'LINK_DOWN',
    message: 'hci9 is in use with extended_scan false: set the same value everywhere',
  })
  assert.deepEqual(took(), ['open'])
  await plain.leave(user)
  await extended.join(listening)
  await assert.rejects(plain.join(user), /extended_scan true/)
  await extended.leave(listening)
})
