// A trace of media and sources that share an adapter, compared with medium-trace.txt: what the radio does, what they receive,
// count and report, while peers come and go, writes are late, and the radio falls silent or is lost.
import { test } from 'node:test'
import { advertisementSources, createBluetooth } from '../../../../drivers/bluetooth'
import { Adapter } from '../../../../drivers/bluetooth/adapter'
import type { BleConnection, BleConnectOptions, BleRadio, RadioEvents } from '../../../../drivers/bluetooth/radio'
import { OsError } from '../../../../src/lib/errors'
import { type Logger, silentLogger } from '../../../../src/lib/logger'
import { frameSerial } from '../../../../src/wire/serial'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { prng } from '../../../lib/random'
import { dice, digest, Trace } from '../../../lib/trace'

const PEERS = ['a4:c1:38:8d:18:b2', 'a4:c1:38:8d:18:b3', 'a4:c1:38:8d:18:b4']
const ADVERTS = [
  '0201060b094449592d73656e736f720a16d2fc4002c40903bf13',
  '02010615ff990403291a1ece1efc18f94202ca0b530000000000',
  '020106030 3aafe11 16aafe200 00bb81640000012300000456'.replaceAll(' ', ''),
  '07096f6666696365',
  '0201060a16d2fc4002ca094002',
].map(text => Buffer.from(text, 'hex'))

test('media and sources that share an adapter behave as medium-trace.txt has it', async t => {
  const trace = new Trace('unit/drivers/bluetooth/medium-trace.txt')
  const { below, chance, pick } = dice(83)
  t.mock.method(Math, 'random', prng(5))
  for (let round = 0; round < 3; round++) {
    const timers = new ManualTimers(new ManualClock())
    const { clock } = timers
    const said: unknown[] = []
    const say =
      (...what: unknown[]) =>
      (...more: unknown[]): void =>
        void said.push([...what, ...more])
    const failed =
      (...what: unknown[]) =>
      ({ code, message, hint }: OsError): void =>
        void said.push([...what, code, message, hint])
    const logger = { ...silentLogger, warn: say('warn'), debug: say('debug') } as Logger
    logger.child = () => logger
    let events: RadioEvents | undefined
    let fails = 0
    let present = true
    let taken = ''
    const peers = new Map<string, BleConnectOptions>()
    const does = async <T>(what: string, value: T): Promise<T> => {
      say(what)()
      if (chance(0.3)) await new Promise<void>(resolve => void timers.after(pick([10, 900, 11_000]), resolve))
      if (chance(fails)) throw new OsError('LINK_DOWN', `${what} failed`)
      return value
    }
    const radio: BleRadio = {
      detail: { unreadable: round },
      open: async given => {
        await does('open', 0)
        events = given
      },
      close: async () => {
        events = undefined
        await does('close', 0).catch(failed('close'))
      },
      startScan: () => does('scan', undefined),
      stopScan: () => does('stop', undefined),
      reset: () => does('reset', peers.size === 0),
      connect: async (options): Promise<BleConnection> => {
        const { address } = options
        await does(`connect ${address} ${options.timeoutMs} ${options.mtu} ${options.rssi}`, 0)
        peers.set(address, options)
        return {
          ...{ mtu: pick([23, 100, 247]), rssi: pick([null, -50]) },
          writes: { withResponse: chance(0.7), withoutResponse: chance(0.7) },
          write: (bytes, response) => does(`write ${bytes.length} ${response}`, undefined),
          disconnect: () => {
            if (peers.delete(address)) options.onLost('ended')
          },
        }
      },
    }
    const options = { name: 'hci0', radio, clock, timers, logger, suspicion: () => '; so it is' }
    const adapter = new Adapter({ ...options, present: () => present, taken: () => taken })
    const context = { clock, logger }
    const parts = { adapter, timers, testWaitMs: 3000 }
    const times = { find_timeout_ms: 3000, connect_timeout_ms: 2000, silence_ms: pick([5000, 60_000]), max_packet: 300 }
    const media = [
      createBluetooth('many', { mode: 'listen', peers: [PEERS[0], PEERS[1], 'office'], ...times }, context, parts),
      createBluetooth('one', { peers: [PEERS[0]!.toUpperCase()], ...times, framing: 'uart' }, context, parts),
      createBluetooth('named', { peers: ['DIY-sensor'], ...times, framing: 'cobs' }, context, parts),
    ]
    for (const medium of media)
      medium.onPacket((packet, { address, rssi, reply }) => {
        say(medium.name, Buffer.from(packet), address, rssi)()
        if (chance(0.3)) void reply(packet).then(say('replied'))
      })
    const sources = [
      advertisementSources.bthome.create(
        'b',
        { address: PEERS[0], channels: { temperature: {}, humidity: { enabled: false }, rssi: {} } },
        context,
        parts,
      ),
      advertisementSources.bthome.create('c', { address: PEERS[1] }, context, parts),
      advertisementSources.ruuvi.create(
        'r',
        { address: PEERS[1], max_age_ms: 20_000, channels: { presence: {} } },
        context,
        parts,
      ),
      advertisementSources.eddystone.create(
        'e',
        { address: PEERS[2], away_ms: 9000, channels: { presence: { id: 'there' } } },
        context,
        parts,
      ),
    ]
    const all = [...media, ...sources]
    const open = new Set<object>()
    await trace.steps(`${round}`, 300, 15, async k => {
      fails = pick([0, 0, 0.1, 0.5])
      present = chance(0.9)
      taken = chance(0.05) ? 'in use' : ''
      const one = pick(all)
      if (chance(open.has(one) ? 0.05 : 0.6)) {
        open.add(one)
        const lost = (why: string): void => {
          open.delete(one)
          say(one.name, 'lost')(why)
        }
        void one.open({ lost, degraded: say(one.name, 'degraded') }).then(say(one.name, 'open'), error => {
          open.delete(one)
          failed(one.name)(error)
        })
      } else if (chance(0.08)) {
        open.delete(one)
        void one.close().then(say(one.name, 'closed'), failed(one.name, 'closed'))
      } else if (chance(0.2) && !open.has(one)) {
        const end = one.onReturn!(say(one.name, 'back'))
        timers.after(below(6000), end)
      }
      for (const address of PEERS)
        if (chance(0.5))
          events?.report({ address, addressType: 'random', data: pick(ADVERTS), rssi: pick([-60, null, -90]) })
      if (chance(0.02)) events?.lost('unplugged')
      if (chance(0.05)) events?.disturbed(pick(['scan stopped', 'adapter reset']))
      const medium = pick(media)
      if (chance(0.4))
        void medium.send(new Uint8Array(pick([1, 20, 21, 97, 98, 250, 301])).fill(k)).then(say(medium.name, 'sent'))
      for (const [address, { onData, onLost }] of peers) {
        const frame = frameSerial(Uint8Array.of(63, k & 255, below(4)), 'uart')
        if (chance(0.3)) onData(chance(0.2) ? frame.subarray(0, 2) : frame)
        if (chance(0.05) && peers.delete(address)) onLost('out of reach')
      }
      const source = pick(sources)
      if (chance(0.3)) void source.read().then(say(source.name, 'read'), failed(source.name, 'read'))
      if (chance(0.05)) void source.readRaw().then(say(source.name, 'raw'), failed(source.name, 'raw'))
      if (k % 100 === 60) await timers.advance(200_000)
      await timers.advance(pick([0, 10, 999, 1000, 3000, 7000]))
      const counters = all.map(each => each.counters)
      const state = [
        said.splice(0),
        counters,
        sources.map(({ sensors, whyNot }) => [sensors.map(({ id, unit }) => [id, unit]), typeof whyNot]),
      ]
      return [
        digest(0, Buffer.from(JSON.stringify(state))),
        clock.mono(),
        adapter.listeners,
        adapter.inUse,
        adapter.detail,
        peers.size,
        timers.pending,
      ]
    })
    fails = 0
    for (const one of all) void one.close().then(say(one.name, 'closed'), failed(one.name, 'closed'))
    await timers.advance(60_000)
    trace.say('closed', [adapter.listeners, adapter.inUse, peers.size, timers.pending])
  }
  trace.compare()
})
