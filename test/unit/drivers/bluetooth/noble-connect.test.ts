// A stream over noble's objects, played by the test: every connection is ended by disconnect(), by a failed step and by the
// deadline, whatever state the library's object is in, and the object is not used after that.
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { checkNoble, checkVersion, connectStream } from '../../../../drivers/bluetooth/noble-connect'
import { ManualClock, ManualTimers } from '../../../lib/manual'

const ID = 'c0ffee000001'
const ADDRESS = 'c0:ff:ee:00:00:01'
type Connects = Parameters<typeof connectStream>

class FakePeripheral extends EventEmitter {
  readonly id = ID
  state = 'disconnected'
  mtu = 100
  rssi = -60
  asked = 0
  readonly calls: string[] = []
  services: unknown[] = []
  connects: () => Promise<void> = async () => {
    this.state = 'connected'
  }
  connectAsync = async (): Promise<void> => {
    this.state = 'connecting'
    await this.connects()
  }
  discoverServicesAsync = async (): Promise<unknown[]> => this.services
  updateRssi = (): void => void this.asked++
  disconnect = (): void => {
    if (this.state !== 'connected') throw new Error(`disconnect while ${this.state}`)
    this.calls.push('disconnect')
    this.state = 'disconnected'
    this.emit('disconnect', 0x16)
  }
  cancelConnect = (): void => {
    if (this.state !== 'connecting') throw new Error(`cancelConnect while ${this.state}`)
    this.calls.push('cancelConnect')
    this.state = 'disconnected'
  }
}

function world() {
  const peripheral = new FakePeripheral()
  const peripherals = new Map<string, FakePeripheral>()
  const noble = { _peripherals: peripherals, _cleanupPeriperals: (id: string) => peripherals.delete(id) }
  const bindings = {
    ...{ _addresses: {}, _addresseTypes: {}, _connectable: {}, scannable: {} },
    onDiscover: () => peripherals.set(ID, peripheral),
  }
  const notify = Object.assign(new EventEmitter(), { uuid: 'n', subscribeAsync: async () => undefined })
  const write = { uuid: 'w', properties: ['write'], writeAsync: async () => undefined }
  peripheral.services = [{ discoverCharacteristicsAsync: async () => [write, notify] }]
  const timers = new ManualTimers(new ManualClock())
  const lost: string[] = []
  const got: string[] = []
  const options = {
    ...{ address: ADDRESS, addressType: 'public', rssi: null, timeoutMs: 5000, mtu: 185 },
    stream: { service: 's', write: 'w', notify: 'n' },
    onData: (data: Uint8Array) => got.push(Buffer.from(data).toString()),
    onLost: (reason: string) => lost.push(reason),
  }
  const connect = () =>
    connectStream(noble as unknown as Connects[0], bindings as unknown as Connects[1], options as Connects[2], timers)
  return { peripheral, peripherals, notify, timers, lost, got, connect }
}

test('a connection passes on notifications, and disconnect() ends it in the library, once', async () => {
  const { peripheral, peripherals, notify, timers, lost, got, connect } = world()
  const connection = await connect()
  notify.emit('data', Buffer.from('one'))
  assert.deepEqual([got, connection.mtu, peripheral.calls], [['one'], 100, []])
  await timers.advance(10_000)
  assert.equal(peripheral.asked, 1)
  connection.disconnect()
  assert.deepEqual([peripheral.calls, peripheral.state, peripherals.size], [['disconnect'], 'disconnected', 0])
  assert.match(lost.join(), /^c0:.*disconnected \(22\)|^disconnected \(22\)$/)
  connection.disconnect()
  await timers.advance(60_000)
  assert.deepEqual([peripheral.calls, peripheral.asked], [['disconnect'], 1])
})

test('a peer without the service is disconnected and forgotten; one that does not answer times out', async () => {
  const without = world()
  without.peripheral.services = []
  await assert.rejects(without.connect(), { code: 'NOT_FOUND' })
  assert.deepEqual([without.peripheral.calls, without.peripherals.size], [['disconnect'], 0])
  const silent = world()
  silent.peripheral.connects = () => new Promise(() => undefined)
  const connecting = assert.rejects(silent.connect(), { code: 'TIMEOUT' })
  await silent.timers.advance(5000)
  await connecting
  assert.deepEqual([silent.peripheral.calls, silent.peripherals.size], [['cancelConnect'], 0])
})

test('the installed noble is the reviewed version and has every private field that is used; a missing one is NO_DRIVER with its name', async () => {
  const { default: about } = await import('@stoprocent/noble/package.json', { with: { type: 'json' } })
  checkVersion(about.version)
  const { default: Noble } = await import('@stoprocent/noble/lib/noble.js')
  const { default: Bindings } = await import('@stoprocent/noble/lib/hci-socket/bindings.js')
  const { default: Hci } = await import('@stoprocent/noble/lib/hci-socket/hci.js' as string)
  const bindings = new Bindings({ deviceId: 0, extended: false, hciDriver: EventEmitter, userChannel: false })
  bindings._sigIntHandler = () => undefined // set when it opens an adapter
  const parts = [new Noble(bindings), bindings, new Hci({ deviceId: 0 })] as const
  checkNoble(...parts)
  const fields: [number, string[]][] = [
    [0, ['_peripherals', '_cleanupPeriperals']],
    [
      1,
      [
        '_hci',
        '_sigIntHandler',
        '_isScanning',
        '_isScanningStarted',
        '_addresses',
        '_addresseTypes',
        '_connectable',
        'scannable',
        'onDiscover',
      ],
    ],
    [2, ['_socket', '_aclConnections', 'onSocketData', 'reset']],
  ]
  for (const [at, names] of fields)
    for (const name of names) {
      const without = new Proxy(parts[at]!, { has: (part, key) => key !== name && key in part })
      const [noble, hci, socket] = parts.map((part, k) => (k === at ? without : part)) as [object, object, object]
      assert.throws(() => checkNoble(noble, hci, socket), {
        code: 'NO_DRIVER',
        message: new RegExp(`lacks \\w+\\.${name}$`),
      })
    }
})
