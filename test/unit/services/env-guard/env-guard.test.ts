import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type BusEdges, lossOf } from '../../../../drivers/can/bus'
import { configuredDevices, type DeviceAccess as Look } from '../../../../src/checks/devices'
import { BUILTIN_REMEDIES, remedyFor } from '../../../../src/checks/remedies'
import type { LinkStatus } from '../../../../src/gateway/status'
import { ERRORS, OsError } from '../../../../src/lib/errors'
import { realFiles } from '../../../../src/lib/files'
import { silentLogger } from '../../../../src/lib/logger'
import { addonRemedy } from '../../../../src/native'
import type { PluginHost } from '../../../../src/services'
import { EnvGuardService } from '../../../../src/services/env-guard'
import type { Issue } from '../../../../src/services/env-guard/issues'
import { ManualTimers } from '../../../lib/manual'
import { configIn, FakeGateway, hostFor, io, tempDir } from '../fake'

const down = (reason: string, hint = ''): LinkStatus => ({ state: 'down', reason, hint }) as LinkStatus
const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

const CONFIG = {
  RESOURCES: {
    physical_status: { uart: true, rs485: false },
    transport_status: { iwip: true },
    transport_config: { iwip: { device: '/dev/ttyS9' }, uip: { device: '/dev/ttyS6' } },
    physical_config: { uart: { port: '/dev/ttyS7' }, rs485: { port: '/dev/ttyS8' } },
  },
  gateway: {
    sources: [
      { name: 'boiler', type: 'modbus_rtu', device: '/dev/ttyUSB3' },
      { name: 'air', type: 'bme280', bus: 9 },
    ],
  },
}

function make(dir: string, looks: Record<string, Look>, more: Partial<PluginHost> = {}) {
  const gateway = new FakeGateway()
  const host = hostFor('env_guard', dir, { gateway, config: configIn(dir, CONFIG), ...more })
  const timers = new ManualTimers(host.clock)
  const parts: { name: string; problem: string }[] = []
  const service = new EnvGuardService(host, {
    timers,
    look: path => looks[path] ?? { state: 'fine' },
    parts: () => parts,
    addon: () => null,
  })
  service.autoLoad()
  const run = async (name: string, options: object = {}) =>
    (await service.getCliCommands()[name]!.run(options as never, io)).value as Record<string, unknown>
  return { service, gateway, host, timers, parts, run }
}

const brief = (issues: readonly Issue[]) => issues.map(({ kind, resource, status }) => `${kind} ${resource} ${status}`)

test('devices of disabled media are not reported', t => {
  const devices = configuredDevices(configIn(tempDir(t), CONFIG))
  assert.deepEqual(
    [...devices],
    [
      ['/dev/ttyS7', ['UART']],
      ['/dev/ttyS9', ['IWIP']],
      ['/dev/ttyUSB3', ['boiler']],
      ['/dev/i2c-9', ['air']],
    ],
  )
})

test('missing devices, permissions and packages are collected, with what to do, until they are resolved', async t => {
  const looks: Record<string, Look> = {
    '/dev/ttyUSB3': { state: 'missing' },
    '/dev/ttyS7': { state: 'forbidden', group: 'dialout' },
  }
  const { service, gateway, host, timers, parts } = make(tempDir(t), looks)
  parts.push({ name: 'quic-linux-x64', problem: 'quic.node is missing' })
  gateway.state = {
    links: {
      radio: down('no access to the radio', ERRORS.NO_ACCESS.hint),
      cloud: down('no answer', 'check the network and the address'),
      adapter: down('/dev/hci0: no such device'),
    },
  }
  service.start()
  assert.deepEqual(service.status().issues, [], 'a start is not held up')
  await timers.advance(1001)
  assert.deepEqual(brief(service.status().issues as Issue[]).sort(), [
    'device /dev/hci0 open',
    'device /dev/ttyUSB3 open',
    'package quic-linux-x64 open',
    'permission /dev/ttyS7 open',
    'permission radio open',
  ])
  const issues = service.status().issues as Issue[]
  const of = (resource: string): Issue => issues.find(issue => issue.resource === resource)!
  assert.match(of('/dev/ttyS7').remedy, /member of the group dialout \(usermod -aG dialout /)
  assert.match(of('quic-linux-x64').remedy, /deps install quic-linux-x64/)
  assert.deepEqual(of('/dev/ttyUSB3').needed_by, ['boiler'])
  // plugged in, and a link that came up
  delete looks['/dev/ttyUSB3']
  gateway.state = { links: {} }
  host.clock.wallMs += 5
  for (const listener of gateway.linkListeners) listener({ name: 'adapter' } as never)
  await timers.advance(1001)
  assert.equal(service.status().resolved, 3)
  assert.equal(service.status().open, 2)
  // and a fault that returns is open again
  looks['/dev/ttyUSB3'] = { state: 'missing' }
  await timers.advance(60_001)
  assert.equal(of('/dev/ttyUSB3').id, (service.status().issues as Issue[]).find(i => i.resource === '/dev/ttyUSB3')!.id)
  assert.equal(service.status().open, 3)
  service.stop()
  assert.equal(timers.pending, 0)
  assert.equal(gateway.linkListeners.size, 0)
})

test('errors of drivers about missing hardware are collected, other errors are not', t => {
  const { service, gateway } = make(tempDir(t), {})
  const links = {
    air: ['there is no I2C bus /dev/i2c-1', 'device /dev/i2c-1'],
    chip: ['no BME280: the chip there has the id 0x58', 'device chip'],
    deaf: ['/dev/i2c-1 0x77: no device answers (EREMOTEIO)', 'device deaf'],
    bus: ['there is no interface can0: plug the adapter in, or enable its overlay', 'device can0'],
    ble: ['this machine has no Bluetooth adapter', 'device ble'],
    line: ['no GPIO chip here is labelled pinctrl-bcm2711', 'device line'],
    warm: ['no 1-Wire thermometer in /sys/bus/w1/devices', 'device warm'],
    usb: ['/dev/ttyUSB9 is gone', 'device /dev/ttyUSB9'],
    isotp: ['ISO-TP is not loaded: modprobe can-isotp', 'package isotp'],
    up: ['the upstream does not answer', ''],
    cloud: ['no host configured', ''],
    tls: ['the certificate of 10.0.0.2 is none we trust', ''],
  } as const
  gateway.state = { links: Object.fromEntries(Object.entries(links).map(([name, [reason]]) => [name, down(reason)])) }
  const wanted = Object.values(links).flatMap(([, issue]) => (issue === '' ? [] : [`${issue} open`]))
  const issues = service.check()
  assert.deepEqual(brief(issues).sort(), wanted.sort())
  const remedy = (resource: string): string => issues.find(issue => issue.resource === resource)!.remedy
  assert.match(remedy('/dev/i2c-1'), /switch I2C on/)
  assert.match(remedy('can0'), /ip link set can0 up/)
})

test('what to do about a missing CAN interface is reported once, also where the driver has its own hint', t => {
  const lines: string[] = []
  const logger = { ...silentLogger, warn: (line: string) => void lines.push(line) }
  const { service, gateway } = make(tempDir(t), {}, { logger })
  const edges = { link: () => assert.fail(new OsError('NOT_FOUND', 'no such interface')) } as unknown as BusEdges
  gateway.state = { links: { bus: down(lossOf('can0', -constants.errno.ENODEV, edges)!) } }
  service.check()
  assert.deepEqual(lines, [
    'bus: there is no interface can0: plug the adapter in, or enable its overlay; then load the modules ' +
      '(modprobe can-isotp) and bring the interface up: ip link set can0 up type can bitrate 500000',
  ])
})

test('issues are kept over a restart; ignored ones stay ignored', async t => {
  const dir = tempDir(t)
  const looks: Record<string, Look> = { '/dev/ttyUSB3': { state: 'missing' } }
  const first = make(dir, looks)
  const [issue] = first.service.check()
  await first.run('set', { id: issue!.id, status: 'ignored' })
  await assert.rejects(async () => first.run('set', { id: 'nope', status: 'open' }), { code: 'NOT_FOUND' })
  const second = make(dir, looks)
  assert.deepEqual(brief(second.service.check()), ['device /dev/ttyUSB3 ignored'])
  assert.equal((await second.run('check')).ok, true)
  assert.deepEqual(await second.run('clear', { all: true }), { ok: true, cleared: 1 })
  assert.deepEqual(brief(second.service.check()), ['device /dev/ttyUSB3 open'])
})

test('the history is limited, and a damaged file starts over', t => {
  const dir = tempDir(t)
  const looks: Record<string, Look> = { '/dev/ttyUSB3': { state: 'missing' }, '/dev/ttyS7': { state: 'missing' } }
  const bounded = make(dir, looks, { settings: () => ({ max_history: 1, check_interval_s: 60 }) })
  assert.equal(bounded.service.check().length, 1)
  writeFileSync(join(dir, 'data/env_guard/status.json'), '{"issues": [{"id": 3}]}')
  assert.equal(make(dir, looks).service.check().length, 2)
})

test('a query to a plugin that does not run checks, and writes nothing', async t => {
  const dir = tempDir(t)
  const { run } = make(dir, { '/dev/ttyUSB3': { state: 'missing' } })
  assert.equal((await run('status')).open, 1)
  assert.ok(!existsSync(join(dir, 'data/env_guard')))
})

test('the plugin starts on a read-only disk, and writes when it can again', t => {
  const dir = tempDir(t)
  const looks: Record<string, Look> = { '/dev/ttyUSB3': { state: 'missing' } }
  let full = true
  const refuse = (): void => assert.ok(!full, Object.assign(new Error('read-only'), { code: 'EROFS' }))
  const mkdir = (path: string): void => {
    refuse()
    realFiles.mkdir(path)
  }
  const { service } = make(dir, looks, { files: { ...realFiles, mkdir } })
  service.start()
  assert.deepEqual(brief(service.check()), ['device /dev/ttyUSB3 open'])
  full = false
  looks['/dev/ttyS7'] = { state: 'missing' }
  assert.equal(service.check().length, 2)
  service.stop()
  assert.equal(JSON.parse(readFileSync(join(dir, 'data/env_guard/status.json'), 'utf8')).issues.length, 2)
})

test('the table of remedies may be changed in a file; a damaged file is ignored', async t => {
  const dir = tempDir(t)
  const { service, run } = make(dir, { '/dev/ttyUSB3': { state: 'missing' } })
  const file = join(dir, 'data/env_guard/resources.json')
  assert.deepEqual(await run('resource-init'), { ok: true, file })
  await assert.rejects(async () => run('resource-init'), /already exists/)
  const given = JSON.parse(readFileSync(file, 'utf8'))
  given.remedies.unshift({ kind: 'device', resource: '/ttyUSB\\d/', remedy: 'call Ann about {resource}' })
  writeFileSync(file, JSON.stringify(given))
  assert.equal(service.check()[0]!.remedy, 'call Ann about /dev/ttyUSB3')
  assert.equal((await run('resource-show')).file, file)
  writeFileSync(file, '{"remedies": [{"kind": "device", "resource": "/(/", "remedy": "x"}]}')
  assert.match(service.check()[0]!.remedy, /plug the adapter in/)
})

test('every kind of issue has a remedy for any subject', () => {
  for (const kind of ['device', 'permission', 'package'] as const)
    assert.doesNotMatch(remedyFor(BUILTIN_REMEDIES, kind, 'thing', { user: 'pi' }), /[{}]/)
  assert.equal(remedyFor(BUILTIN_REMEDIES, 'package', 'native addon', { user: 'pi' }), addonRemedy())
})

test('the plugin never starts a program', () => {
  const dir = join(root, 'src/services/env-guard')
  for (const name of readdirSync(dir))
    assert.doesNotMatch(readFileSync(join(dir, name), 'utf8'), /child_process|execFile|spawn|\/program'/)
})
