// The session file of an uplink belongs to the server that the uplink leads to.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ConfigStore, UplinkConfig } from '../../../src/config'
import { receivingSessions, sendingSessions } from '../../../src/gateway/sessions'
import { silentLogger } from '../../../src/lib/logger'
import type { NodeClock } from '../../../src/protocol/time'
import { ManualClock } from '../../lib/manual'
import { MemFiles } from '../log/memfiles'

const security_settings = { secure_session_expire_seconds: 86_400, time_sync_threshold: 1e6, require_secure: false }
const UP = { name: 'up', medium: 'UDP', host: '10.0.0.1', port: 8080 }

test('an uplink keeps its key over a restart and a change of its rate, and never uses it for another server', () => {
  const clock = new ManualClock()
  const time = { now: () => clock.wall(), mono: () => clock.mono(), wall: () => clock.wall() } as unknown as NodeClock
  const config = { dataDir: '/d', config: { security_settings } } as unknown as ConfigStore
  const files = new MemFiles()
  const client = (settings: object) =>
    sendingSessions({ config, time, logger: silentLogger, files }, { ...UP, ...settings } as UplinkConfig)
  const { sessions } = client({})
  sessions.keyOn(7, 1_710_000_000_000)
  sessions.confirmSecureDict(7, 1_710_000_000_000)
  sessions.save(true)
  assert.notEqual(client({ rate_packets_s: 5, batch_max_items: 4 }).outboundKey(7), null)
  for (const other of [{ host: '10.0.0.2' }, { port: 8081 }, { medium: 'TCP' }, { topics: { up: 'x' } }])
    assert.equal(client(other).outboundKey(7), null, JSON.stringify(other))
})

test('the key of another uplink is used if both lead to one server: the same host, or the same name for it', () => {
  const ts = 1_710_000_000_000
  const borrowed = (one: object, other: object): boolean => {
    const clock = new ManualClock()
    const time = { now: () => clock.wall(), mono: () => clock.mono(), wall: () => clock.wall() } as unknown as NodeClock
    const build = {
      config: { dataDir: '/d', config: { security_settings } } as unknown as ConfigStore,
      ...{ time, logger: silentLogger, files: new MemFiles() },
    }
    const all = new Map()
    const [first, second] = [
      { ...UP, ...one },
      { ...UP, name: 'second', medium: 'MQTT', port: 1883, ...other },
    ].map(settings => sendingSessions(build, settings as UplinkConfig, all))
    first!.sessions.keyOn(7, ts)
    first!.sessions.confirmSecureDict(7, ts)
    second!.plaintextSent(7, ts + 1)
    const how = second!.onPlaintextRefused({ reason: 'BAD_KEY', aid: 7, tid: '1', ts: ts + 1, crc16: 1 } as never)
    assert.equal(how, second!.outboundKey(7) ? 'keyed' : 'held')
    return how === 'keyed'
  }
  assert.equal(borrowed({}, {}), true)
  assert.equal(borrowed({ host: 'Gw.example' }, { host: 'gw.EXAMPLE' }), true)
  assert.equal(borrowed({}, { host: '10.0.0.2' }), false)
  assert.equal(borrowed({ server: 'one' }, { host: '10.0.0.2', server: 'one' }), true)
  assert.equal(borrowed({ server: 'one' }, { server: 'two' }), false, 'two servers on one host')
  assert.equal(borrowed({ server: 'one' }, {}), false)
  const bus = { medium: 'CAN', host: undefined, port: undefined }
  assert.equal(borrowed({}, bus), false)
  assert.equal(borrowed(bus, bus), false)
  assert.equal(borrowed({ server: 'one' }, { ...bus, server: 'one' }), true)
})

test('how long a confirmed key keeps its address, and which plaintext is accepted next to it, is configured', () => {
  for (const plaintext of ['same_address', 'any', 'never'] as const) {
    const clock = new ManualClock()
    const time = { now: () => clock.wall(), mono: () => clock.mono(), wall: () => clock.wall() } as unknown as NodeClock
    const config = {
      dataDir: '/d',
      baseDir: '/',
      config: {
        security_settings: { ...security_settings, rekey_after_s: 30 },
        receiver: { plaintext_after_secure: plaintext },
      },
    } as unknown as ConfigStore
    const server = receivingSessions({ config, time, logger: silentLogger, files: new MemFiles() })
    const T = 1_710_000_000_000
    assert.ok(server.onPlaintext(7, T, false, '10.0.0.5:1'))
    server.hears('10.0.0.5:1')
    server.onSecure(7, server.keys(7)[0]!, '10.0.0.5:1', true)
    const taken = ['10.0.0.5:1', '6.6.6.6:6'].map(address => server.takesPlaintext(7, address))
    assert.deepEqual(taken, { same_address: [true, false], any: [true, true], never: [false, false] }[plaintext])
    clock.advance(29_999)
    assert.equal(server.onPlaintext(7, T + 1, false, '6.6.6.6:6'), null)
    clock.advance(1)
    assert.ok(server.onPlaintext(7, T + 2, false, '6.6.6.6:6'))
  }
})
