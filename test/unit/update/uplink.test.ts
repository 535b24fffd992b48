// The uplink of os-node.conf: which addresses are accepted, and the configuration they give, which the gateway accepts.
// Needs: linux rigtools
import assert from 'node:assert/strict'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { fragments } from '../../../src/index'
import { createLogger } from '../../../src/lib/logger'
import { settingLines } from '../../../src/update/card-settings'
import { takeUplink, uplinkOf, withUplink } from '../../../src/update/uplink'
import { runOnBusybox } from '../../lib/busybox'
import { root, tempDir } from '../../lib/gateway'

const SETUP = join(root, 'src/build/image/root/usr/lib/os-node/setup')
const GOOD = {
  'udp://192.0.2.10:8080': { medium: 'UDP', host: '192.0.2.10', port: 8080 },
  'udp://[2001:db8::1]:8080': { medium: 'UDP', host: '2001:db8::1', port: 8080 },
  'tcp://office.example': { medium: 'TCP', host: 'office.example' },
  'quic://office.example:4433/': { medium: 'QUIC', host: 'office.example', port: 4433 },
  'mqtt://broker:1883': { medium: 'MQTT', host: 'broker', port: 1883 },
  'mqtts://gw7:p%40ss:2$(x)@broker.example': {
    medium: 'MQTT',
    host: 'broker.example',
    tls: true,
    username: 'gw7',
    password: 'p@ss:2$(x)',
  },
}
const BAD = [
  '192.0.2.10:8080',
  'http://192.0.2.10',
  'udp://',
  'udp://a b:1',
  'udp://user@host:1',
  'udp://host:123456',
  'udp://host:80/path',
  'mqtt://:secret@host',
  'mqtt://a"b@host',
]

/** The configuration as the gateway reads it. */
function load(text: string): ConfigStore {
  const dir = tempDir()
  const path = join(dir, 'Config.json')
  writeFileSync(path, text)
  const logger = createLogger({ write: () => undefined })
  return ConfigStore.load({ path, env: {}, dataDir: dir, logger, keep: false, fragments: fragments() })
}

/** What the script of the image reports for a line, and what it writes. */
function setUp(address: string): { report: string; uplink: string | null } {
  const dir = tempDir()
  writeFileSync(join(dir, 'c'), `hostname=a\nuplink=${address}\n`)
  runOnBusybox(SETUP, join(dir, 'c'), dir)
  const at = join(dir, 'os-node-uplink')
  if (existsSync(at)) assert.equal(statSync(at).mode & 0o777, 0o600)
  return {
    report: readFileSync(join(dir, 'os-node-setup.txt'), 'utf8'),
    uplink: existsSync(at) ? readFileSync(at, 'utf8') : null,
  }
}

test('an address is an uplink, for the card as for the script of the board', () => {
  for (const [address, uplink] of Object.entries(GOOD)) {
    assert.deepEqual(uplinkOf(address), { name: 'card', ...uplink })
    assert.deepEqual(setUp(address), { report: '', uplink: address })
    assert.equal(settingLines({ uplink: address }), `uplink=${address}\n`)
  }
})

test('an invalid address is refused by both, by the board with its line', () => {
  for (const address of BAD) {
    assert.throws(() => settingLines({ uplink: address }), { code: 'BAD_ARGUMENT', message: /^uplink: udp, tcp, quic/ })
    const { report, uplink } = setUp(address)
    assert.match(report, /^os-node\.conf line 2: uplink: udp, tcp, quic, mqtt or mqtts/, address)
    assert.equal(uplink, null)
  }
  for (const address of ['udp://host:0', 'udp://host:70000'])
    assert.throws(() => uplinkOf(address), { code: 'BAD_ARGUMENT', message: /^uplink: / })
})

test('the configuration has it first, with its medium on, replacing an earlier one; the rules of the gateway are met', () => {
  const shipped = readFileSync(join(root, 'Config.json'), 'utf8')
  let text = shipped
  for (const [address, { medium }] of Object.entries(GOOD)) {
    text = withUplink(text, address)
    const { warnings, config } = load(text)
    assert.deepEqual(warnings, [], address)
    assert.equal(config.gateway.uplinks.length, 1)
    assert.equal(config.gateway.uplinks[0]!.medium, medium)
  }
  const own = JSON.parse(shipped)
  own.gateway.uplinks = [{ name: 'office', medium: 'UDP', host: '192.0.2.1', port: 8080 }]
  const both = JSON.parse(withUplink(JSON.stringify(own), 'mqtt://broker'))
  assert.deepEqual(
    both.gateway.uplinks.map(({ name }: { name: string }) => name),
    ['card', 'office'],
  )
  assert.equal(both.RESOURCES.application_status.mqtt, true)
  assert.deepEqual(JSON.parse(withUplink('{}', 'tcp://a')), {
    gateway: { uplinks: [{ name: 'card', medium: 'TCP', host: 'a' }] },
    RESOURCES: { transport_status: { tcp: true } },
  })
})

/** The files of takeUplink in `dir`, with an uplink and, in `etc`, an empty configuration. */
function prepared(dir: string, etc: string) {
  const [wanted, taken, report] = ['wanted', 'taken', 'report'].map(name => join(dir, name)) as [string, string, string]
  const config = join(etc, 'Config.json')
  writeFileSync(wanted, 'udp://192.0.2.10:8080')
  writeFileSync(config, '{}', { mode: 0o640 })
  return { wanted, config, taken, report }
}

test('a link in the place of the new file is not followed: the owner of the folder writes it', {
  skip: process.getuid?.() === 0 ? false : 'needs root',
}, () => {
  const dir = tempDir()
  chmodSync(dir, 0o755)
  const etc = join(dir, 'etc')
  mkdirSync(etc)
  const target = join(dir, 'target')
  writeFileSync(target, 'of root')
  const places = prepared(dir, etc)
  symlinkSync(target, `${places.config}.${process.pid}.tmp`)
  for (const path of [etc, places.config]) chownSync(path, 65534, 65534)
  assert.throws(() => takeUplink(places), { code: 'EACCES' })
  assert.equal(readFileSync(target, 'utf8'), 'of root')
  assert.equal(process.geteuid!(), 0)
  rmSync(`${places.config}.${process.pid}.tmp`)
  takeUplink(places)
  const { uid, mode } = statSync(places.config)
  assert.deepEqual([uid, mode & 0o777], [65534, 0o640])
})

test('a start applies it and keeps owner and permissions of the file; an invalid one is reported', () => {
  const dir = tempDir()
  const places = prepared(dir, dir)
  takeUplink(places)
  assert.equal(JSON.parse(readFileSync(places.config, 'utf8')).gateway.uplinks[0].host, '192.0.2.10')
  assert.equal(statSync(places.config).mode & 0o777, 0o640)
  assert.equal(readFileSync(places.taken, 'utf8'), 'udp://192.0.2.10:8080')
  assert.equal(statSync(places.taken).mode & 0o777, 0o600)
  writeFileSync(places.config, '// mine\n{}')
  assert.throws(() => takeUplink(places), { code: 'CONFIG_INVALID', message: /Config\.json has comments/ })
  assert.match(readFileSync(places.report, 'utf8'), /^os-node\.conf: uplink: ignored/)
  assert.equal(readFileSync(places.config, 'utf8'), '// mine\n{}')
})
