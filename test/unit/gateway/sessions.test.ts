// The session file of an uplink belongs to the server it leads to.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ConfigStore, UplinkConfig } from '../../../src/config'
import { sendingSessions } from '../../../src/gateway/sessions'
import { ManualClock } from '../../../src/lib/clock'
import { silentLogger } from '../../../src/lib/logger'
import type { NodeClock } from '../../../src/protocol/time'
import { MemFiles } from '../log/memfiles'

const security_settings = { secure_session_expire_seconds: 86_400, time_sync_threshold: 1e6, require_secure: false }
const UP = { name: 'up', medium: 'UDP', host: '10.0.0.1', port: 8080 }

test('an uplink keeps its key over a restart and a change of pace, and never uses it for another server', () => {
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
