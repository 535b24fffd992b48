// Hot reload (R27): a valid change keeps the log and the links that did not change, an invalid one changes nothing.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import * as v from 'valibot'
import { strict } from '../../../../drivers/kit/common-options'
import { ConfigStore } from '../../../../src/config'
import { Gateway, type GatewayOptions } from '../../../../src/gateway/gateway'
import { systemClock } from '../../../../src/lib/clock'
import type { OsError } from '../../../../src/lib/errors'
import { createLogger } from '../../../../src/lib/logger'
import type { Medium, Source } from '../../../../src/links/contracts'
import { checkOptions } from '../../../../src/links/driver-options'
import { Registry } from '../../../../src/links/registry'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { webConfig } from '../../../../src/web/from-gateway'
import { until } from '../../../lib/gateway'

const units = { ...wireUnits(), resolve }
const counters = () => ({ rx: 0, tx: 0, errors: 0 })

/** A gateway whose sources and receivers are plain objects; `opened` counts openings by name. One named `slow` never opens. */
async function gateway(
  t: TestContext,
  config: object,
  start = (gw: Gateway): unknown => gw.start(),
  loaded: Promise<unknown> = Promise.resolve(),
  more: Partial<GatewayOptions> = {},
) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-reload-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const path = join(dir, 'Config.json')
  // readings do not wait for the time of an upstream: the stop would wait for them
  const time = { hold_unsynced_s: 0 }
  const write = ({ gateway, ...next }: { gateway?: object }): void =>
    writeFileSync(
      path,
      JSON.stringify({
        ...{ device_id: 'GW', assigned_id: 5, storage: { sql: { enabled: false } } },
        ...{ ...next, gateway: { time, ...gateway } },
      }),
    )
  write(config)
  const opened: string[] = []
  const lines: string[] = []
  const open = (name: string) => async (): Promise<void> => {
    opened.push(name)
    if (name === 'slow') await new Promise(() => undefined)
  }
  const close = async (): Promise<void> => undefined
  const source = (name: string): Source => ({
    ...{ name, type: 'fake', intervalMs: 60_000, counters: counters(), open: open(name), close },
    // a source named strange has a unit that does not exist
    read: async () => [name === 'mute' ? ['m', 'ERROR', null, 'K'] : ['s', 'OK', 1, name === 'strange' ? 'Cell' : 'K']],
    ...(name === 'mute' && { whyNot: (id: string) => `no answer for ${id}` }),
  })
  const medium = (name: string): Medium => ({
    ...{ name, medium: 'TCP', maxPacket: 1200, counters: counters(), open: open(name), close },
    send: async () => true,
    onPacket: () => undefined,
  })
  const fake = { type: 'fake', create: source }
  const typed = { type: 'typed', schema: strict({ depth: v.optional(v.strictObject({})) }), create: source }
  const schema = v.looseObject({ port: v.pipe(v.number(), v.notValue(666, 'not port 666')) })
  const tcp = {
    medium: 'TCP',
    schema,
    create: (name: string, options: unknown) => {
      checkOptions(schema, options, name)
      return medium(name)
    },
  }
  const logger = createLogger({ write: line => void lines.push(line) })
  const store = ConfigStore.load({ path, env: {}, cwd: dir, logger })
  const gw = await Gateway.open({
    config: store,
    registry: new Registry({
      media: { TCP: async () => tcp },
      sources: { fake: () => loaded.then(() => fake), typed: async () => typed },
    }),
    units,
    script: '',
    version: '0',
    builtAt: 0,
    logger,
    defaultSources: [],
    role: 'run',
    clock: systemClock,
    ...more,
  })
  t.after(() => gw.stop())
  await start(gw)
  return { gw, store, write, opened, lines, links: () => gw.status().links }
}

const on = { RESOURCES: { transport_status: { tcp: true } } }
const uplink = { name: 'up', medium: 'TCP', host: '127.0.0.1', port: 9, delivery: 'best_effort' }
const with_ = (sources: object[], more: object = {}) => ({ gateway: { sources, uplinks: [uplink], ...more }, ...on })

test('a changed source is reopened, an unchanged one stays open', async t => {
  const { gw, write, opened, links } = await gateway(
    t,
    with_([
      { name: 'a', type: 'fake' },
      { name: 'b', type: 'fake' },
      { name: 'c', type: 'fake' },
    ]),
  )
  const { boot } = gw.log
  write(
    with_([
      { name: 'a', type: 'fake' },
      { name: 'b', type: 'fake', match: 'x' },
      { name: 'd', type: 'fake' },
    ]),
  )
  const report = await gw.reload()
  assert.deepEqual(report.links.sources, { added: ['d'], removed: ['c'], changed: ['b'], kept: ['a'] })
  assert.deepEqual(
    report.links.uplinks.kept.concat(report.links.uplinks.changed).filter(name => name !== 'up'),
    [],
  )
  assert.deepEqual(report.changed, ['gateway.sources'])
  assert.deepEqual(report.needs_restart, [])
  await until('all are up', () => ['a', 'b', 'd'].every(name => links()[name]?.state === 'up'))
  assert.equal(links().c, undefined)
  assert.equal(links().a!.opens, 1, 'the connection of a source that did not change is the same')
  assert.equal(links().up!.opens, 1)
  assert.deepEqual(opened.filter(name => name === 'a').length, 1)
  assert.equal(gw.log.boot, boot)
})

test('unknown options of a source in a hand-written file are one warning each, and the source opens', async t => {
  const entry = { name: 'a', type: 'typed', every_s: 5, intervl_ms: 5, depth: { x: 1 } }
  const { lines, links, opened } = await gateway(t, with_([entry]))
  await until('it is open', () => opened.includes('a'))
  assert.equal(links().a?.state, 'up')
  const said = lines.filter(line => /it is ignored/.test(line))
  assert.deepEqual(
    said.map(line => /source a, ([\w.]+): /.exec(line)?.[1]),
    ['depth.x', 'every_s', 'intervl_ms'],
  )
})

test('a configured receiver named udp replaces the address of serve', async t => {
  const receivers = [{ name: 'udp', medium: 'TCP', port: 9 }]
  const listen = { listen: { host: '127.0.0.1', port: 8 } }
  const { gw, lines } = await gateway(t, with_([], { receivers }), undefined, undefined, listen)
  assert.deepEqual(gw.listening, gw.config.config.gateway.receivers)
  assert.equal(lines.filter(line => /receivers are named/.test(line)).length, 0)
  const other = await gateway(t, with_([], { receivers: [{ ...receivers[0], name: 'b' }] }), () => 0, undefined, listen)
  assert.deepEqual(
    other.gw.listening.map(({ name, port }) => [name, port]),
    [
      ['udp', 8],
      ['b', 9],
    ],
  )
})

test('a long list of sources is applied in slices, and others get their turn in between', async t => {
  const { gw, write } = await gateway(t, with_([]))
  const list = (more: object) => Array.from({ length: 100 }, (_, k) => ({ name: `n${k}`, type: 'fake', ...more }))
  for (const more of [{}, { match: 'x' }]) {
    const seen = new Set<number>()
    write(with_(list(more)))
    const reload = gw.reload()
    const timer = setInterval(() => seen.add(gw.sources.names.length), 1)
    await reload
    clearInterval(timer)
    const between = [...seen].filter(n => n > 0 && n < 100)
    assert.ok(between.length >= 3, `seen in between: ${between.join(' ')}`)
  }
})

test('a changed deadband does not close the source, and applies immediately', async t => {
  const { gw, write, links } = await gateway(t, with_([{ name: 'a', type: 'fake' }]))
  write(with_([{ name: 'a', type: 'fake', deadband: 0.5 }]))
  const { links: applied } = await gw.reload()
  assert.deepEqual(applied.sources.changed, ['a'])
  assert.equal(links().a!.opens, 1)
})

test('a deadband for an unknown sensor is reported with the known sensors', async t => {
  const { lines } = await gateway(t, with_([{ name: 'a', type: 'fake', deadband: { s: 1, ss: 2 } }]))
  const told = () => lines.filter(line => line.includes('deadband'))
  await until('it is reported', () => told().length > 0)
  assert.match(told()[0]!, /deadband: no sensor is named ss; there are s\n$/)
})

test('a sensor without a value is in the status with the reason of its driver, under the id it is logged with', async t => {
  const { gw } = await gateway(t, with_([{ name: 'mute', type: 'fake' }]))
  const [row] = await until('it is read', () => gw.status().attention)
  const { at: _, ...rest } = row!
  assert.deepEqual(rest, { device_id: 'GW', sensor_id: 'm', status: 'ERROR', reason: 'no answer for m' })
})

test('an invalid file is refused with path and reason, and changes nothing', async t => {
  const { gw, store, write, opened, lines, links } = await gateway(t, with_([{ name: 'a', type: 'fake' }]))
  const before = opened.length
  write(with_([{ name: 'b', type: 'fake', interval_ms: 1 }]))
  await assert.rejects(gw.reload(), (error: OsError) => {
    assert.equal(error.code, 'CONFIG_INVALID')
    assert.match(error.message, /Config\.json:1.*gateway\.sources\.0\.interval_ms.*2–86400000/)
    return true
  })
  assert.equal(store.config.gateway.sources?.[0]?.name, 'a')
  assert.equal(links().a!.opens, 1)
  assert.equal(links().b, undefined)
  assert.equal(opened.length, before)
  assert.match(gw.status().config_problem ?? '', /interval_ms/)
  assert.match(lines.join(''), /interval_ms.*the running configuration stays in use/)
  // repaired: the problem is gone
  write(with_([{ name: 'a', type: 'fake' }]))
  assert.deepEqual((await gw.reload()).links.sources.kept, ['a'])
  assert.equal(gw.status().config_problem, undefined)
})

test('a page opened to the network by the command line requires a token, whichever way the reload comes', async t => {
  for (const [pageHost, refused] of [
    ['0.0.0.0', true],
    ['127.0.0.1', false],
  ] as const) {
    const { gw, store, write } = await gateway(t, with_([]), gw => gw.start(), Promise.resolve(), { pageHost })
    const open = { ...with_([]), web_user: { auth_enabled: false } }
    const why = {
      code: 'CONFIG_INVALID',
      message: 'web_user.auth_enabled must be true while the page listens on 0.0.0.0',
    }
    write(open)
    if (refused) await assert.rejects(gw.reload(), why)
    else await gw.reload()
    write(with_([]))
    await gw.reload()
    const set = store.approved(limits => store.setting('web_user.auth_enabled', false, undefined, limits))
    if (refused) await assert.rejects(set, why)
    else await set
  }
})

test('a link that cannot be created is refused before anything changes', async t => {
  const { gw, write, links } = await gateway(t, with_([{ name: 'a', type: 'fake' }]))
  for (const [more, reason] of [
    [{ receivers: [{ name: 'in', medium: 'TCP', port: 666 }] }, /gateway\.receivers\.0.*port 666/],
    [{ receivers: [{ name: 'in', medium: 'smoke' }] }, /gateway\.receivers\.0.*smoke/],
    [{ uplinks: [uplink, { name: 'two', medium: 'TCP', port: 666 }] }, /gateway\.uplinks\.1.*port 666/],
  ] as const) {
    write(with_([], more))
    await assert.rejects(gw.reload(), reason)
    assert.deepEqual(Object.keys(links()).sort(), ['a', 'up'])
  }
  write(with_([{ name: 'a', type: 'smoke' }]))
  await assert.rejects(gw.reload(), /gateway\.sources\.0.*smoke/)
  assert.equal(links().a!.opens, 1)
  assert.match(gw.status().config_problem ?? '', /smoke/)
})

test('a write over CLI or HTTP is applied automatically; keys that need a restart are reported', async t => {
  const { gw, store, links } = await gateway(t, with_([{ name: 'a', type: 'fake' }]))
  store.set('gateway.receivers', [{ name: 'in', medium: 'TCP', port: 5 }])
  await until('the receiver listens', () => links().in?.state === 'up')
  store.set('RESOURCES.transport_status.tcp', false)
  await until('its medium is off', () => links().in?.state === 'down')
  assert.match(links().in?.reason ?? '', /switched off/)
  store.set('engine_settings.precision', 6)
  assert.deepEqual(gw.status().needs_restart, ['engine_settings.precision'])
  const { changesSince } = gw.config
  gw.config.changesSince = () => assert.fail('compared already')
  assert.deepEqual(gw.status().needs_restart, ['engine_settings.precision'])
  gw.config.changesSince = changesSince
  assert.deepEqual((await gw.reload()).needs_restart, ['engine_settings.precision'])
  store.set('engine_settings.precision', 4)
  assert.equal(gw.status().needs_restart, undefined)
})

test('a write with a link that cannot be created is refused like such a file, and nothing is written', async t => {
  const { gw, store, links } = await gateway(t, with_([{ name: 'a', type: 'fake' }]))
  for (const [medium, port, reason] of [
    ['SMOKE', 5, /gateway\.receivers\.0 \(in\): .*SMOKE/],
    ['TCP', 666, /gateway\.receivers\.0 \(in\): .*not port 666/],
  ] as const) {
    const value = [{ name: 'in', medium, port }]
    const { set, update } = webConfig(store)
    await assert.rejects(set('gateway.receivers', value), { code: 'CONFIG_INVALID', message: reason })
    await assert.rejects(update({ gateway: { receivers: value, log_level: 'warn' } }), { message: reason })
    assert.deepEqual([store.get('gateway.receivers'), store.get('gateway.log_level')], [[], 'info'])
  }
  assert.equal(gw.status().config_problem, undefined, 'the file is as it was')
  await webConfig(store).set('gateway.receivers', [{ name: 'in', medium: 'TCP', port: 5 }])
  await until('the receiver listens', () => links().in?.state === 'up')
})

test('a name may move from one kind of link to another in a reload', async t => {
  const { gw, write, links } = await gateway(t, with_([{ name: 'a', type: 'fake' }]))
  write(with_([{ name: 'b', type: 'fake' }], { receivers: [{ name: 'a', medium: 'TCP', port: 5 }] }))
  await gw.reload()
  await until('both are up', () => links().a?.state === 'up' && links().b?.state === 'up')
  assert.equal(links().a!.kind, 'medium')
})

test('receiver.allow applies immediately', async t => {
  const { gw, store } = await gateway(t, with_([]))
  const origin = { medium: 'UDP', address: '192.0.2.1:5', reply: async () => true }
  gw.receive.packet(Uint8Array.of(9), origin)
  assert.equal(gw.receive.counters.not_allowed, 0)
  store.set('receiver.allow', ['10.0.0.0/8'])
  await until('it is refused', () => {
    gw.receive.packet(Uint8Array.of(9), origin)
    return gw.receive.counters.not_allowed > 0
  })
})

test('a gateway that has not started says that it is starting; one that stops says that it is stopping', async t => {
  const { gw } = await gateway(t, with_([]), () => undefined)
  await assert.rejects(gw.reload(), { code: 'STARTING', message: 'the gateway is starting' })
  await gw.start()
  assert.deepEqual((await gw.reload()).changed, [])
  await gw.stop()
  await assert.rejects(gw.reload(), { code: 'LINK_DOWN', message: 'the gateway is stopping' })
})

test('reloads and writes are applied while the first links are opening', async t => {
  const a = { name: 'a', type: 'fake' }
  let starting: Promise<void> | undefined
  let load = (): void => undefined
  const loaded = new Promise<void>(resolve => {
    load = resolve
  })
  const begin = (gw: Gateway): void => {
    starting = gw.start()
  }
  const slow = { name: 'slow', type: 'fake' }
  const first = with_([a, slow, { name: 'b', type: 'fake' }])
  const { gw, store, write, links, opened } = await gateway(t, first, begin, loaded)
  write(with_([a, slow]))
  const reloading = gw.reload()
  await new Promise(setImmediate)
  assert.equal(store.get<unknown[]>('gateway.sources').length, 3, 'not before the links are made')
  load()
  assert.deepEqual((await reloading).links.sources.removed, ['b'])
  store.set('gateway.receivers', [{ name: 'in', medium: 'TCP', port: 5 }])
  await until('the receiver listens', () => links().in?.state === 'up')
  assert.equal(links().slow?.state, 'opening')
  assert.deepEqual(opened.filter(name => name === 'a').length, 1)
  write(with_([a]))
  await gw.reload()
  await starting
})

test('of two sources with one sensor id, the later one is logged under its source name, with one warning, and keeps that id', async t => {
  const { gw, lines, write } = await gateway(
    t,
    with_([
      { name: 'a', type: 'fake' },
      { name: 'b', type: 'fake' },
    ]),
  )
  const ids = () => gw.latestReadings().flatMap(({ sensors }) => sensors.map(({ id }) => id))
  await until('both are read', () => ids().length === 2)
  const warned = () => lines.filter(line => /1 sensor id in use by a: s is now b_s/.test(line)).length
  assert.deepEqual([ids().sort(), warned()], [['b_s', 's'], 1])
  assert.equal((await gw.sources.test('b')).readings[0]!.sensor_id, 'b_s')
  assert.equal((await gw.sources.test('a')).readings[0]!.sensor_id, 's')
  // the first one is reopened, and keeps its id
  write(
    with_([
      { name: 'a', type: 'fake', match: 'x' },
      { name: 'b', type: 'fake' },
    ]),
  )
  await gw.reload()
  await until('it is read again', () => gw.intake.counters.readings >= 3)
  assert.deepEqual([ids().sort(), warned()], [['b_s', 's'], 1])
  write(with_([{ name: 'a', type: 'fake', match: 'x' }]))
  await gw.reload()
  assert.deepEqual(ids(), ['s'], 'a source that is gone shows no readings')
})

test('readings of an unknown unit: status names source, unit and count, and the others continue', async t => {
  const { links } = await gateway(
    t,
    with_([
      { name: 'strange', type: 'fake' },
      { name: 'b', type: 'fake' },
    ]),
  )
  await until('it is read', () => links().strange?.state === 'degraded')
  assert.match(links().strange!.reason!, /^readings refused: unit "?Cell"? is not understood$/)
  assert.equal(links().strange!.detail?.refused_readings, 1)
  assert.deepEqual([links().b!.state, links().b!.detail?.refused_readings], ['up', undefined])
})
