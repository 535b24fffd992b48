// A trace of a radio on a library that the test plays, compared with noble-trace.txt: calls, reports and counters while the
// adapter changes its state, does not answer, and peers come and go.
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { NobleRadio } from '../../../../drivers/bluetooth/noble'
import type { BleConnection } from '../../../../drivers/bluetooth/radio'
import type { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { dice, digest, Trace } from '../../../lib/trace'
import { MemFiles } from '../../log/memfiles'

type Options = ConstructorParameters<typeof NobleRadio>[0]
const SYS = '/sys/class/bluetooth'
const ID = 'c0ffee000001'

test('a radio on a library that the test plays behaves as noble-trace.txt has it', async () => {
  const trace = new Trace('unit/drivers/bluetooth/noble-trace.txt')
  const { below, chance, pick } = dice(71)
  const timers = new ManualTimers(new ManualClock())
  const said: unknown[] = []
  const say =
    (...what: unknown[]) =>
    (...more: unknown[]): void =>
      void said.push([...what, ...more])
  const failed =
    (...what: unknown[]) =>
    ({ code, message, hint }: OsError): void =>
      void said.push([...what, code, message, hint])
  const files = new MemFiles()
  const put = (path: string, text: string): void => {
    files.files.set(path, { data: Buffer.from(text), durable: Buffer.alloc(0) })
  }
  let first = 'unknown'
  /** calls back immediately, later or never */
  const back = (run: () => void): void => {
    const after = pick([0, 0, 0, 10, 2999, 3001, -1])
    if (after === 0) run()
    else if (after > 0) timers.after(after, run)
  }
  const step = <T>(value: T): Promise<T> =>
    new Promise((resolve, reject) => back(() => (chance(0.1) ? reject(new Error('ATT error')) : resolve(value))))
  class Peripheral extends EventEmitter {
    readonly id = ID
    state = pick(['disconnected', 'disconnected', 'connecting'])
    mtu = pick([null, 5, 23, 100])
    rssi = -70
    async connectAsync(options: object): Promise<void> {
      say('connect', options)()
      this.state = 'connecting'
      await step(0)
      this.state = 'connected'
    }
    cancelConnect = say('cancelConnect')
    updateRssi = say('updateRssi')
    disconnect(): void {
      say('disconnect')()
      this.state = 'disconnected'
      this.emit('disconnect', 0x16)
    }
    async discoverServicesAsync(uuids: string[]): Promise<unknown[]> {
      const properties = pick([['write'], ['writeWithoutResponse'], ['write', 'writeWithoutResponse']])
      const write = {
        uuid: 'w',
        properties,
        writeAsync: async (data: Buffer, without: boolean) => say('w', data, without)(),
      }
      const notify = Object.assign(new EventEmitter(), { uuid: 'n', subscribeAsync: () => step(0) })
      this.on('notified', data => notify.emit('data', data))
      const found = pick([[notify, write], [notify, write], [notify], [write]])
      return step(chance(0.1) ? [] : [{ uuids, discoverCharacteristicsAsync: () => step(found) }])
    }
  }
  let library: { noble: Noble; bindings: Bindings; peripheral: Peripheral } | undefined
  class Bindings extends EventEmitter {
    readonly _hci = Object.assign(new EventEmitter(), {
      _socket: Object.assign(new EventEmitter(), { stop: say('socket stop') }),
      onSocketData: (data: Buffer): void => {
        if (data[0] === 9) throw new Error('an opcode of its own')
        said.push(['data', data])
      },
      reset: (): void => {
        said.push('hci reset')
        back(() => void this._hci.emit('reset'))
      },
      _aclConnections: new Map<number, unknown>(),
    })
    _sigIntHandler = (): void => undefined
    _isScanning = true
    _isScanningStarted = true
    _addresses = {}
    _addresseTypes = {}
    _connectable = {}
    scannable = {}
    constructor({ hciDriver: _, ...options }: { hciDriver: unknown }) {
      super()
      say('bindings', options)()
      process.on('SIGINT', this._sigIntHandler)
      this._hci.on('leAdvertisingReport', say('the report of the library'))
      this._hci._socket.on('data', say('the data of the library'))
    }
    onDiscover(...about: unknown[]): void {
      say('discover', about)()
      library!.peripheral = new Peripheral()
      if (!chance(0.05)) library!.noble._peripherals.set(ID, library!.peripheral)
    }
  }
  class Noble extends EventEmitter {
    readonly _peripherals = new Map<string, Peripheral>()
    now = first
    constructor(readonly bindings: Bindings) {
      super()
      library = { noble: this, bindings, peripheral: new Peripheral() }
      this.on('warning', say('a warning of the library'))
    }
    get state(): string {
      return this.now
    }
    startScanning(uuids: string[], twice: boolean, done: (error?: Error) => void): void {
      say('startScanning', uuids, twice)()
      back(() => done(chance(0.1) ? new Error('no scan') : undefined))
    }
    stopScanning(done: () => void): void {
      this.bindings.emit('scanStop')
      back(done)
    }
    stop(): void {
      say('stop')()
      if (chance(0.3)) throw new Error('not started')
    }
    _cleanupPeriperals(id: string): void {
      this._peripherals.delete(id)
    }
  }
  const radio = new NobleRadio({
    ...{ adapter: 'hci7', extended: false, timers, files },
    logger: { debug: say('debug') } as unknown as Options['logger'],
    load: async () =>
      ({ version: '2.8.0', Noble, Bindings }) as unknown as Awaited<ReturnType<NonNullable<Options['load']>>>,
  })
  const events = { report: say('report'), lost: say('lost'), disturbed: say('disturbed') }
  const stream = { service: 's', write: 'w', notify: 'n' }
  let connection: BleConnection | undefined
  const before = process.listenerCount('SIGINT')
  await trace.steps('radio', 900, 20, async k => {
    if (k % 30 === 0 || chance(0.02)) {
      files.files.clear()
      for (const name of chance(0.8) ? ['hci7', 'hci7:1'] : pick([[], ['hci1', 'hci2', 'rfkill7']]))
        put(`${SYS}/${name}`, '')
      if (chance(0.2)) put(`${SYS}/hci7/rfkill0`, '')
      for (const kind of ['soft', 'hard']) put(`${SYS}/hci7/rfkill0/${kind}`, `${below(2)}\n`)
      if (chance(0.5))
        put('/proc/self/status', `Name: x\nCapEff:\t${pick(['3000', '1000', '2000', '3fffffffff', '0'])}\n`)
      first = pick([
        'unknown',
        'unknown',
        'unknown',
        'poweredOn',
        'unsupported',
        'unauthorized',
        'poweredOff',
        'resetting',
      ])
      void radio.open(events).then(say('open'), failed('open'))
      for (let ticks = below(5); chance(0.3) && ticks > 0; ticks--) await null
      if (chance(0.1)) void radio.close()
      await timers.advance(0)
      if (chance(0.9))
        library?.noble.emit('stateChange', pick(['poweredOn', 'poweredOn', 'poweredOn', 'unsupported', 'unauthorized']))
    }
    const { noble, bindings, peripheral } = library ?? {}
    const hci = bindings?._hci
    if (chance(0.1)) void radio.startScan().then(say('scans'), failed('scans'))
    if (chance(0.1)) void radio.stopScan().then(say('scans no more'), failed('scans no more'))
    if (chance(0.05)) void radio.reset().then(say('was reset'), failed('was reset'))
    if (chance(0.05)) hci?._aclConnections[pick(['set', 'set', 'clear', 'clear'] as const)](1, 1)
    if (chance(0.05)) hci?.emit('reset')
    if (chance(0.05)) bindings?.emit('scanStop')
    if (chance(0.02)) noble?.emit('stateChange', pick(['poweredOff', 'poweredOn', 'resetting', 'unsupported']))
    if (chance(0.05)) noble?.emit('warning', `warning ${k}`)
    if (chance(0.2)) hci?.emit('leAdvertisingReport', 0, 1, 'aa', 'random', Buffer.of(k & 255), pick([-60, 127]))
    if (chance(0.2))
      hci?.emit('leExtendedAdvertisingReport', 0, 1, 'bb', 'public', 7, pick([-61, 127]), Buffer.of(k & 255))
    if (chance(0.2)) hci?._socket.emit('data', Buffer.of(pick([1, 9])))
    if (chance(0.1)) hci?.onSocketData(Buffer.of(pick([2, 9])))
    if (chance(0.1)) {
      const about = { address: 'c0:ff:ee:00:00:01', addressType: 'random' as const, rssi: pick([null, -50]), mtu: 185 }
      void radio
        .connect({ ...about, stream, timeoutMs: 5000, onData: say('heard'), onLost: say('connection lost') })
        .then(made => {
          connection = made
          say('connected', made.mtu, made.rssi, made.writes)()
        }, failed('not connected'))
    }
    if (chance(0.2)) peripheral?.emit('notified', Buffer.of(5, k & 255))
    if (chance(0.03)) peripheral?.emit('disconnect', 8)
    if (chance(0.1)) void connection?.write(Uint8Array.of(k & 255), chance(0.5))
    if (chance(0.05)) connection?.disconnect()
    await timers.advance(pick([0, 0, 10, 2990, 3000, 5000, 10_000]))
    const scans = bindings && [bindings._isScanning, bindings._isScanningStarted, noble!._peripherals.size]
    if (bindings && chance(0.1)) bindings._isScanning = bindings._isScanningStarted = true
    const left = [scans, noble?.eventNames(), hci?.eventNames(), peripheral?.eventNames(), connection?.rssi]
    const all = Buffer.from(JSON.stringify([said.splice(0), left]))
    return [digest(0, all), radio.detail, timers.pending, process.listenerCount('SIGINT') - before]
  })
  await radio.close()
  trace.compare()
})

test('a version of noble whose private fields were not reviewed is refused before any of it runs', async () => {
  const files = new MemFiles()
  files.files.set(`${SYS}/hci7`, { data: Buffer.alloc(0), durable: Buffer.alloc(0) })
  class Unused {
    constructor() {
      assert.fail('it runs')
    }
  }
  const load = async () => ({ version: '2.9.0', Noble: Unused, Bindings: Unused }) as never
  const radio = new NobleRadio({ adapter: 'hci7', extended: false, logger: silentLogger, files, load })
  await assert.rejects(radio.open({ report: () => {}, lost: () => {}, disturbed: () => {} }), {
    code: 'NO_DRIVER',
    message: 'Bluetooth needs @stoprocent/noble 2.8.0, this build has 2.9.0',
  })
})
