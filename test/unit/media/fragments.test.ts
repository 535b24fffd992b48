import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type AnySchema, allowed, ConfigStore, openSchema } from '../../../src/config'
import { defaults } from '../../../src/config/default-text'
import { busOptions, mediaTable } from '../../../src/index'
import { OsError } from '../../../src/lib/errors'
import { createLogger } from '../../../src/lib/logger'
import { MASK } from '../../../src/lib/secrets'
import { mediumInfo } from '../../../src/links/registry'
import { mediaFragments } from '../../../src/media/fragments'

const root = mkdtempSync(join(tmpdir(), 'os-node-fragments-'))
after(() => rmSync(root, { recursive: true, force: true }))

/** A store over a file with these uplinks, receivers and RESOURCES. */
function open(gateway: object = {}, resources: object = {}): { store: ConfigStore; file: string } {
  const file = join(root, 'Config.json')
  writeFileSync(file, JSON.stringify({ gateway, RESOURCES: resources }, null, 1))
  const logger = createLogger({ write: () => undefined })
  return {
    file,
    store: ConfigStore.load({
      path: file,
      env: {},
      dataDir: root,
      logger,
      fragments: mediaFragments(busOptions),
      keep: false,
    }),
  }
}

/** Options that a link sets itself, or that every link has. */
const GIVEN = new Set(['mode', 'listen_host'])

test('every option of every medium is a known key with a meaning, in links and for dispatch', async () => {
  const { store } = open()
  const rows = new Map(store.rows().map(row => [row.key, row]))
  for (const [medium, load] of Object.entries(mediaTable)) {
    const { entries = {} } = (await load()).schema as unknown as AnySchema
    const { section, options_name } = mediumInfo(medium)!
    for (const [option, schema] of Object.entries(entries)) {
      if (GIVEN.has(option)) continue
      const { core, pipe, standard } = openSchema(schema)
      const meta = pipe.find(item => item.type === 'metadata')?.metadata as { help: string; side?: string }
      const places = [
        ...(meta.side === 'listen' ? [] : ['gateway.uplinks[]', `RESOURCES.${section}.${options_name}`]),
        ...(meta.side === 'send' ? [] : ['gateway.receivers[]']),
      ]
      for (const place of places) {
        const keys = core.entries ? Object.keys(core.entries).map(name => `${option}.${name}`) : [option]
        for (const key of keys) {
          const row = rows.get(`${place}.${key}`)
          assert.ok(row, `${place}.${key} is not a known key`)
          assert.notEqual(row.help, '')
        }
        // limits and choices are those that the driver checks
        const row = rows.get(`${place}.${option}`)
        if (row?.help.endsWith(`(${medium})`)) assert.equal(row.allowed, allowed(schema), row.key)
      }
      // a key that several media share has no default of its own in a link
      const told = rows.get(`gateway.uplinks[].${option}`)?.default
      if (told !== undefined && option !== 'delivery') assert.equal(told, standard, `${medium} ${option}`)
    }
  }
  assert.equal(rows.get('gateway.uplinks[].password')?.secret, true)
  assert.equal(rows.get('gateway.uplinks[].keepalive_s')?.default, 30)
  assert.match(rows.get('gateway.uplinks[].keepalive_s')!.help, /\(MQTT\)$/)
  assert.ok(rows.has('gateway.uplinks[].tls.ca'))
  assert.ok(!rows.has('gateway.uplinks[].max_connections'), 'a sender takes no connections')
})

test('a link keeps what its file has: defaults of the driver are not filled in', () => {
  const uplink = { name: 'a', medium: 'MQTT', host: 'h', keepalive_s: 60 }
  const { store } = open({ uplinks: [uplink] })
  assert.deepEqual(store.warnings, [])
  const [read] = store.config.gateway.uplinks
  assert.equal(read!.keepalive_s, 60)
  assert.ok(!Object.hasOwn(read!, 'qos') && !Object.hasOwn(read!, 'topics') && !Object.hasOwn(read!, 'batch'))
  assert.deepEqual(Object.keys(defaults().RESOURCES.application_config.mqtt as object), ['host', 'port'])
})

test('a key that several media share accepts what any of them allows', () => {
  const can = { name: 'can', medium: 'CAN', peers: [{ tx_id: '0x111', rx_id: '0x211' }], max_packet: 4095 }
  const ble = { name: 'ble', medium: 'Bluetooth', peers: ['a4:c1:38:8d:18:b2'], framing: 'cobs' }
  const udp = { name: 'udp', medium: 'UDP', max_packet: 65_507 }
  const { store } = open({ receivers: [can, ble, udp] })
  assert.deepEqual(store.warnings, [])
  const twice = [...can.peers, { tx_id: 5, rx_id: '0x211' }]
  assert.throws(() => store.set('gateway.receivers.0.peers', twice), /peers: peers.0 and peers.1 have the same rx_id$/)
  assert.throws(() => store.set('gateway.receivers.0.peers', [5]), /gateway\.receivers\.0\.peers.* must be a list/)
})

test('a key of another medium is reported with the media that know it, a typing error with the key meant', () => {
  const { store } = open({
    uplinks: [{ name: 'a', medium: 'udp', host: 'h', qos: 1, max_packt: 100 }],
    receivers: [{ name: 'b', medium: 'TCP', idle_timeout_s: 5, max_connections: 10 }],
  })
  assert.equal(store.warnings.length, 2)
  assert.match(store.warnings[0]!, /gateway\.uplinks\.0\.qos means nothing to udp, only to MQTT/)
  assert.match(store.warnings[1]!, /gateway\.uplinks\.0\.max_packt is not a known key; did you mean max_packet\?/)
})

test('a wrong option is refused with its key, and changes nothing', () => {
  const { store, file } = open({ uplinks: [{ name: 'a', medium: 'MQTT', host: 'h' }] })
  const before = readFileSync(file, 'utf8')
  const refused = (key: string, value: unknown, text: RegExp): void =>
    assert.throws(
      () => store.set(key, value),
      error => error instanceof OsError && error.code === 'CONFIG_INVALID' && text.test(error.message),
    )
  refused('gateway.uplinks.0.qos', 3, /gateway\.uplinks\.0\.qos must be 0 or 1 or 2, not 3/)
  refused('gateway.uplinks.0.tls', 5, /gateway\.uplinks\.0\.tls/)
  const lora = (option: object): unknown => [{ name: 'l', medium: 'LoRa', ...option }]
  refused('gateway.uplinks', lora({ spreading_factor: 13 }), /spreading_factor must be a whole number 6–12, not 13/)
  refused('gateway.uplinks', lora({ bandwidth_khz: 126 }), /bandwidth_khz must be 7\.8 or 10\.4 .*, not 126/)
  refused('RESOURCES.transport_config.tcp.connect_timeout_s', 0, /0\.01–60/)
  assert.equal(readFileSync(file, 'utf8'), before)
  store.set('RESOURCES.application_config.mqtt.qos', '2')
  assert.equal(store.get('RESOURCES.application_config.mqtt.qos'), 2)
})

test('a misspelt key is UNKNOWN_KEY with the one meant, also where an object is one of several things a key may be', () => {
  const { store, file } = open({ uplinks: [{ name: 'a', medium: 'TCP', host: 'h', tls: { ca: '/x' } }] })
  const before = readFileSync(file, 'utf8')
  const wrong: [string, unknown, RegExp][] = [
    [
      'gateway.uplinks.0.tls',
      { cart: '/x' },
      /^gateway\.uplinks\.0\.tls\.cart is not a known key; did you mean cert\?$/,
    ],
    ['gateway.uplinks.0.tls.servernam', 'x', /tls\.servernam is not a known key; did you mean servername\?$/],
    [
      'gateway.uplinks.1',
      { name: 'b', medium: 'MQTT', host: 'h', tls: { clent_ca: 'x' } },
      /did you mean client_ca\?$/,
    ],
    ['gateway.uplinks.0.reset_pin', { pinn: 'x' }, /reset_pin\.pinn is not a known key; did you mean pin\?$/],
    [
      'gateway.receivers.0',
      { name: 'c', medium: 'CAN', peers: [{ tx_idd: 1, rx_id: 2 }] },
      /peers\.0\.tx_idd .* tx_id\?$/,
    ],
    ['web_user.tls', { cert: 'a', kei: 'b' }, /web_user\.tls\.kei is not a known key; did you mean key\?$/],
    ['web_user.tls.kei', 'b', /web_user\.tls\.kei is not a known key; did you mean key\?$/],
  ]
  for (const [key, value, message] of wrong)
    assert.throws(() => store.set(key, value), { code: 'UNKNOWN_KEY', message }, key)
  assert.equal(readFileSync(file, 'utf8'), before)
  store.set('gateway.uplinks.0.tls', true)
  store.set('gateway.uplinks.0.tls', { ca: '/y', cert: '/z' })
  store.set('web_user.tls', 'self_signed')
  assert.deepEqual(store.warnings, [])
})

test('passwords of links are masked on output, and a masked one written back keeps the stored one (X19)', () => {
  const { store, file } = open(
    {
      uplinks: [{ name: 'a', medium: 'MQTT', host: 'h', username: 'u', password: 'sesame-1' }],
      receivers: [{ name: 'b', medium: 'MQTT', host: 'mqtt://x:sesame-2@h', password: 'sesame-3' }],
    },
    { application_config: { mqtt: { host: 'h', password: 'sesame-4' } } },
  )
  assert.doesNotMatch(JSON.stringify(store.masked()), /sesame/)
  const shown = store.masked('gateway.uplinks') as Record<string, unknown>[]
  assert.equal(shown[0]!.password, MASK)
  store.update({
    gateway: { uplinks: [{ ...shown[0], keepalive_s: 9 }], receivers: store.masked('gateway.receivers') },
  })
  store.update({ RESOURCES: { application_config: { mqtt: store.masked('RESOURCES.application_config.mqtt') } } })
  const { gateway } = store.config
  assert.deepEqual([gateway.uplinks[0]!.password, gateway.uplinks[0]!.keepalive_s], ['sesame-1', 9])
  assert.deepEqual([gateway.receivers[0]!.password, gateway.receivers[0]!.host], ['sesame-3', 'mqtt://x:sesame-2@h'])
  assert.equal(store.get('RESOURCES.application_config.mqtt.password'), 'sesame-4')
  // a list with another link of that mask has nothing to restore from
  assert.throws(
    () => store.update({ gateway: { uplinks: [{ ...shown[0], name: 'other' }] } }),
    error => error instanceof OsError && error.code === 'SECRET_NEEDED' && !/sesame/.test(error.message),
  )
  assert.match(readFileSync(file, 'utf8'), /sesame-1/)
})
