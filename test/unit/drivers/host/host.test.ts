// The machine itself as a source: processor, memory, network, disks, the options, and what a fresh machine reads.
// Needs: cc
import assert from 'node:assert/strict'
import { existsSync, statfsSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { BlockingFiles } from '../../../../drivers/host/blocking-files'
import { defaultSources, hostSources } from '../../../../drivers/host/index'
import { systemClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'
import type { SourceReading } from '../../../../src/links/contracts'
import { Supervisor } from '../../../../src/links/supervisor'
import { until } from '../../../lib/gateway'
import { events, source, tree } from './host-world'

test('cpu: busy per cent between reads; the first read samples twice', async t => {
  const { root, put } = tree(t, {
    'proc/stat': 'cpu  1000 0 1000 8000 0 0 0 0 0 0\n',
    'proc/loadavg': '0.50 0.25 1.00 1/100 999\n',
  })
  let pauses = 0
  const { source: cpu } = source(
    'cpu',
    root,
    {},
    {
      sleep: async () => {
        pauses++
        put('proc/stat', 'cpu  1010 0 1000 8030 0 0 0 0 0 0\n')
      },
    },
  )
  await cpu.open(events)
  assert.deepEqual(await cpu.read(), [
    ['cpu_busy', 'OK', 25, '%'],
    ['load_1m', 'OK', 0.5, '{1}'],
    ['load_5m', 'OK', 0.25, '{1}'],
    ['load_15m', 'OK', 1, '{1}'],
  ])
  put('proc/stat', 'cpu  1110 0 1000 8130 0 0 0 0 0 0\n')
  assert.equal((await cpu.read())[0]?.[2], 50)
  assert.equal(pauses, 1)
  put('proc/loadavg', 'broken')
  put('proc/stat', 'cpu  1210 0 1000 8230 0 0 0 0 0 0\n')
  assert.deepEqual(
    (await cpu.read()).map(row => row[1]),
    ['OK', 'ERROR', 'ERROR', 'ERROR'],
  )
})

test('memory in bytes and per cent; swap only if present', async t => {
  const { root } = tree(t, { 'proc/meminfo': 'MemTotal: 1000 kB\nMemAvailable: 250 kB\nSwapTotal: 0 kB\n' })
  const { source: memory } = source('memory', root)
  await memory.open(events)
  assert.deepEqual(await memory.read(), [
    ['mem_total', 'OK', 1_024_000, 'By'],
    ['mem_available', 'OK', 256_000, 'By'],
    ['mem_used', 'OK', 75, '%'],
  ])
  const swapped = tree(t, {
    'proc/meminfo': 'MemTotal: 1000 kB\nMemAvailable: 250 kB\nSwapTotal: 100 kB\nSwapFree: 90 kB\n',
  })
  const { source: other } = source('memory', swapped.root)
  await other.open(events)
  assert.deepEqual((await other.read())[3], ['swap_used', 'OK', 10, '%'])
})

const netDev = (devices: Record<string, [rx: number, tx: number]>): string =>
  `Inter-|\n face |\n${Object.entries(devices)
    .map(([name, [rx, tx]]) => `${name}: ${rx} 10 1 2 0 0 0 0 ${tx} 20 3 4 0 0 0 0`)
    .join('\n')}\n`

test('network: counters, rates per second of the monotonic clock, virtual interfaces left out', async t => {
  const { root, put } = tree(t, {
    'proc/net/dev': netDev({ lo: [1, 1], eth10: [0, 0], docker0: [1, 1], eth2: [1000, 50] }),
  })
  const { source: net, clock } = source('network', root)
  await net.open(events)
  clock.advance(4000)
  put('proc/net/dev', netDev({ lo: [1, 1], eth10: [0, 0], docker0: [1, 1], eth2: [5000, 250] }))
  const rows = await net.read()
  assert.equal(rows.length, 16)
  assert.deepEqual(rows.slice(0, 8), [
    ['net_eth2_rx', 'OK', 5000, 'By'],
    ['net_eth2_tx', 'OK', 250, 'By'],
    ['net_eth2_rx_rate', 'OK', 1000, 'By/s'],
    ['net_eth2_tx_rate', 'OK', 50, 'By/s'],
    ['net_eth2_rx_packets', 'OK', 10, '{packets}'],
    ['net_eth2_tx_packets', 'OK', 20, '{packets}'],
    ['net_eth2_errors', 'OK', 4, '{errors}'],
    ['net_eth2_drops', 'OK', 6, '{drops}'],
  ])
  // a restarted counter has no rate for one reading; an interface that vanishes keeps its slots
  clock.advance(1000)
  put('proc/net/dev', netDev({ eth2: [10, 300] }))
  const later = new Map((await net.read()).map(row => [row[0], row[2]]))
  assert.deepEqual(
    ['net_eth2_rx', 'net_eth2_rx_rate', 'net_eth2_tx_rate', 'net_eth10_rx'].map(id => later.get(id)),
    [10, null, 50, null],
  )
  put('proc/net/dev', netDev({ lo: [1, 1] }))
  await assert.rejects(net.read(), { code: 'LINK_DOWN' })
})

test('network: at most eight interfaces; named ones may be virtual; having none is an error with a reason', async t => {
  const many = Object.fromEntries(Array.from({ length: 12 }, (_, k) => [`eth${k}`, [0, 0] as [number, number]]))
  const { root, put } = tree(t, { 'proc/net/dev': netDev(many) })
  const { source: net } = source('network', root)
  await net.open(events)
  assert.equal((await net.read()).length, 64)
  put('proc/net/dev', netDev({ lo: [1, 1], 'br-1': [1, 1] }))
  await assert.rejects(source('network', root).source.open(events), { code: 'NOT_FOUND' })
  const { source: chosen } = source('network', root, { interfaces: 'lo, eth*' })
  await chosen.open(events)
  assert.equal((await chosen.read())[0]?.[0], 'net_lo_rx')
})

test('disk: free bytes and used per cent as in df; a file system named twice is read once', async () => {
  const spaces: Record<string, [device: number, total: number, free: number, available: number]> = {
    '/': [1, 1000, 500, 400],
    '/data': [2, 100, 100, 100],
    '/srv': [2, 100, 100, 100],
  }
  const space = async (path: string) => {
    const found = spaces[path]
    if (!found) throw Object.assign(new Error('no such file'), { code: 'ENOENT' })
    const [device, totalBytes, freeBytes, availableBytes] = found
    return { device, totalBytes, freeBytes, availableBytes }
  }
  const { source: disk } = source('disk', '/nowhere', { data_dir: '/data', paths: ['/srv', '/gone'] }, { space })
  await disk.open(events)
  const used = 55.56
  // in hundredths: 0.0434 % cannot be sent with four decimals
  assert.deepEqual(await disk.read(), [
    ['disk_root_free', 'OK', 400, 'By'],
    ['disk_root_used', 'OK', used, '%'],
    ['disk_data_free', 'OK', 100, 'By'],
    ['disk_data_used', 'OK', 0, '%'],
  ])
  spaces['/data'] = [2, 1_000_000, 999_566, 999_566]
  assert.deepEqual((await disk.read())[3], ['disk_data_used', 'OK', 0.04, '%'])
  delete spaces['/data']
  assert.deepEqual((await disk.read())[2], ['disk_data_free', 'ERROR', null, 'By'])
  delete spaces['/']
  delete spaces['/srv']
  await assert.rejects(disk.open(events), { code: 'NOT_FOUND' })
})

test('the space of a file system is the same from the addon and from node, and a missing path gives the same error', async () => {
  const { dev } = statSync(tmpdir())
  const { bsize, blocks } = statfsSync(tmpdir())
  const before = process.env.OS_NODE_NO_ADDON
  for (const without of ['', '1']) {
    process.env.OS_NODE_NO_ADDON = without
    const files = new BlockingFiles({ deadlineMs: 60_000 })
    const { device, totalBytes, freeBytes, availableBytes } = await files.space(tmpdir())
    assert.deepEqual([device, totalBytes], [dev, blocks * bsize])
    assert.ok(availableBytes > 0 && availableBytes <= freeBytes && freeBytes <= totalBytes)
    await assert.rejects(files.space('/no/such/place'), { code: 'ENOENT' })
  }
  if (before === undefined) delete process.env.OS_NODE_NO_ADDON
  else process.env.OS_NODE_NO_ADDON = before
})

test('options have defaults and limits, and wrong keys are named', () => {
  const context = { clock: systemClock, logger: silentLogger }
  assert.equal(hostSources.cpu.create('cpu', {}, context).intervalMs, 2000)
  assert.equal(hostSources.hwmon.create('chips', { interval_ms: 250 }, context).intervalMs, 250)
  assert.throws(() => hostSources.cpu.create('cpu', { interval_ms: 5 }, context), /options of cpu: interval_ms/)
  assert.throws(() => hostSources.cpu.create('cpu', { match: 5 }, context), { code: 'CONFIG_INVALID' })
  for (const [type, { create }] of Object.entries(hostSources))
    assert.throws(() => create('s', { junkz: 5 }, context), { code: 'UNKNOWN_KEY', message: /junkz/ }, type)
})

test('a fresh machine reads cpu, memory, disk, network, uptime, thermal and hwmon', () => {
  assert.deepEqual(
    defaultSources('/var/lib/os-node').map(({ name, type, interval_ms }) => [name, type, interval_ms]),
    [
      ['cpu', 'cpu', 2000],
      ['memory', 'memory', 5000],
      ['disk', 'disk', 30_000],
      ['network', 'network', 5000],
      ['uptime', 'uptime', 30_000],
      ['thermal', 'thermal', 5000],
      ['hwmon', 'hwmon', 5000],
    ],
  )
  assert.equal(defaultSources('/var/lib/os-node').find(s => s.type === 'disk')?.data_dir, '/var/lib/os-node')
})

test('on this machine the sources of /proc are read, and what /sys lacks is a link state', {
  skip: existsSync('/proc/stat') ? false : 'this machine has no /proc',
}, async t => {
  const got = new Map<string, SourceReading>()
  const supervisor = new Supervisor({
    onReadings: (_source, rows) => {
      for (const row of rows) got.set(row[0], row)
    },
  })
  t.after(() => supervisor.stop())
  const context = { clock: systemClock, logger: silentLogger }
  for (const { name, type, ...options } of defaultSources(tmpdir()))
    supervisor.add(hostSources[type].create(name, options, context))
  await supervisor.tried()
  await until('all are read', () => ['cpu_busy', 'mem_used', 'uptime', 'disk_root_used'].every(id => got.has(id)))
  const links = supervisor.links()
  for (const name of ['cpu', 'memory', 'disk', 'uptime']) assert.equal(links[name]?.state, 'up', name)
  for (const name of ['thermal', 'hwmon', 'network']) assert.ok(['up', 'down', 'degraded'].includes(links[name]!.state))
  const value = (id: string): number => got.get(id)?.[2] ?? Number.NaN
  assert.ok(value('cpu_busy') >= 0 && value('cpu_busy') <= 100)
  assert.ok(value('mem_used') > 0 && value('mem_used') < 100)
  assert.ok(value('uptime') > 0)
  assert.ok(value('disk_root_used') >= 0 && value('disk_root_free') > 0)
})
