// Needs: cc
import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { HostEnvironment } from '../../../drivers/host/environment'
import { createHostSource, defaultSources, HOST_TYPES, type HostType, hostSources } from '../../../drivers/host/index'
import { isGone, SlowFiles } from '../../../drivers/host/slow'
import { systemClock } from '../../../src/lib/clock'
import type { OsError } from '../../../src/lib/errors'
import { silentLogger } from '../../../src/lib/logger'
import type { OpenableEvents, Source, SourceReading } from '../../../src/links/contracts'
import { Supervisor } from '../../../src/links/supervisor'
import { nativeOrNull } from '../../../src/native'
import { until } from '../../lib/gateway'
import { HangingFile, heldClock } from '../../lib/hanging'
import { ManualClock, ManualTimers } from '../../lib/manual'

const events: OpenableEvents = { lost: () => undefined, degraded: () => undefined }

/** A folder with prepared files; `put` adds or replaces, `take` removes. */
function tree(t: TestContext, files: Record<string, string> = {}) {
  const root = mkdtempSync(join(tmpdir(), 'host-'))
  t.after(() => rmSync(root, { recursive: true, force: true }))
  const put = (path: string, text: string): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  for (const [path, text] of Object.entries(files)) put(path, text)
  return { root, put, take: (path: string) => rmSync(join(root, path), { recursive: true, force: true }) }
}

function source(
  type: HostType,
  root: string,
  options: object = {},
  env: Partial<HostEnvironment> = {},
): { source: Source; clock: ManualClock } {
  const clock = new ManualClock()
  const made = createHostSource(
    type,
    type,
    { sys_root: join(root, 'sys'), proc_root: join(root, 'proc'), ...options },
    { clock, logger: silentLogger },
    { sleep: async () => undefined, ...env },
  )
  return { source: made, clock }
}

const hwmon = 'sys/class/hwmon'

const CHIPS: Record<string, string> = {
  [`${hwmon}/hwmon0/name`]: 'coretemp\n',
  [`${hwmon}/hwmon0/temp1_input`]: '45000\n',
  [`${hwmon}/hwmon0/temp1_label`]: 'Package id 0\n',
  [`${hwmon}/hwmon0/temp1_max`]: '100000\n',
  [`${hwmon}/hwmon0/temp10_input`]: '43500\n',
  [`${hwmon}/hwmon0/temp2_input`]: '-250\n',
  [`${hwmon}/hwmon1/name`]: 'nct6775\n',
  [`${hwmon}/hwmon1/in0_input`]: '1064\n',
  [`${hwmon}/hwmon1/fan1_input`]: '1203\n',
  [`${hwmon}/hwmon1/curr1_input`]: '1500\n',
  [`${hwmon}/hwmon1/power1_average`]: '12500000\n',
  [`${hwmon}/hwmon1/temp1_input`]: '31000\n',
  [`${hwmon}/hwmon1/temp1_fault`]: '1\n',
  [`${hwmon}/hwmon1/temp2_input`]: '1\n',
  [`${hwmon}/hwmon1/temp2_enable`]: '0\n',
}

test('hwmon: every kind in its unit, in a fixed order; faulty and disabled channels are distinguished', async t => {
  const { root } = tree(t, CHIPS)
  const { source: chips } = source('hwmon', root)
  await chips.open(events)
  const expected: SourceReading[] = [
    ['coretemp_Package_id_0', 'OK', 45, 'Cel'],
    ['coretemp_temp2', 'OK', -0.25, 'Cel'],
    ['coretemp_temp10', 'OK', 43.5, 'Cel'],
    ['nct6775_temp1', 'ERROR', null, 'Cel'],
    ['nct6775_in0', 'OK', 1.064, 'V'],
    ['nct6775_curr1', 'OK', 1.5, 'A'],
    ['nct6775_power1', 'OK', 12.5, 'W'],
    ['nct6775_fan1', 'OK', 1203, 'rpm'],
  ]
  assert.deepEqual(await chips.read(), expected)
  assert.deepEqual(chips.counters, { rx: 7, tx: 0, errors: 1 })
})

test('hwmon: order and names do not depend on the numbers of the kernel', async t => {
  const renumbered = Object.fromEntries(
    Object.entries(CHIPS).map(([path, text]) => [
      path.replace(/hwmon\/hwmon(\d)/, (_, n) => `hwmon/hwmon${n === '0' ? 7 : 3}`),
      text,
    ]),
  )
  const names = async (files: Record<string, string>) => {
    const { source: chips } = source('hwmon', tree(t, files).root)
    await chips.open(events)
    return (await chips.read()).map(row => row[0])
  }
  assert.deepEqual(await names(renumbered), await names(CHIPS))
})

test('hwmon: chips of one name are distinguished by their bus name, labels of one name by their channel', async t => {
  const { root, put } = tree(t)
  for (const [n, device] of ['nvme1', 'nvme0'].entries()) {
    put(`${hwmon}/hwmon${n}/name`, 'nvme\n')
    put(`${hwmon}/hwmon${n}/temp1_input`, `${n}000\n`)
    put(`sys/devices/${device}/x`, '')
    symlinkSync(join(root, `sys/devices/${device}`), join(root, `${hwmon}/hwmon${n}/device`))
  }
  put(`${hwmon}/hwmon2/name`, 'acpi\n')
  put(`${hwmon}/hwmon2/temp1_input`, '1000')
  put(`${hwmon}/hwmon2/temp1_label`, 'Board')
  put(`${hwmon}/hwmon2/temp2_input`, '2000')
  put(`${hwmon}/hwmon2/temp2_label`, 'Board')
  put(`${hwmon}/hwmon2/temp3_input`, '3000')
  put(`${hwmon}/hwmon2/temp3_label`, '°°')
  const { source: chips } = source('hwmon', root)
  await chips.open(events)
  assert.deepEqual(
    (await chips.read()).map(row => [row[0], row[2]]),
    [
      ['acpi_Board_temp1', 1],
      ['acpi_Board_temp2', 2],
      ['acpi_temp3', 3],
      ['nvme_nvme0_temp1', 1],
      ['nvme_nvme1_temp1', 0],
    ],
  )
})

test('hwmon: two sensors that would get the same name are refused', async t => {
  const { root } = tree(t, {
    [`${hwmon}/hwmon0/name`]: 'a\n',
    [`${hwmon}/hwmon0/temp1_input`]: '1\n',
    [`${hwmon}/hwmon0/temp1_label`]: 'b_c\n',
    [`${hwmon}/hwmon1/name`]: 'a_b\n',
    [`${hwmon}/hwmon1/temp1_input`]: '1\n',
    [`${hwmon}/hwmon1/temp1_label`]: 'c\n',
  })
  await assert.rejects(source('hwmon', root).source.open(events), { code: 'CONFIG_INVALID' })
})

test('sensors that a machine lacks are NOT_FOUND with the reason', async t => {
  const { root } = tree(t, { 'sys/class/thermal/cooling_device0/type': 'fan', 'sys/class/hwmon/hwmon0/name': 'empty' })
  const reasons: Record<string, string> = {}
  for (const type of HOST_TYPES) {
    if (type === 'disk') continue
    try {
      await source(type, root).source.open(events)
    } catch (error) {
      assert.equal((error as OsError).code, 'NOT_FOUND', type)
      reasons[type] = (error as OsError).message.replace(root, '')
    }
  }
  assert.deepEqual(reasons, {
    cpu: '/proc/stat cannot be read on this machine',
    memory: '/proc/meminfo cannot be read on this machine',
    network: '/proc/net/dev cannot be read on this machine',
    uptime: '/proc/uptime cannot be read on this machine',
    thermal: 'no thermal zones on this machine',
    hwmon: 'no hwmon sensors on this machine',
    iio: 'no IIO sensors on this machine',
  })
})

test('match selects sensors; a pattern without a match lists the available ones', async t => {
  const { root } = tree(t, CHIPS)
  const { source: some } = source('hwmon', root, { match: 'coretemp_*, /no/' })
  await some.open(events)
  assert.equal((await some.read()).length, 3)
  await assert.rejects(source('hwmon', root, { match: 'gpu*' }).source.open(events), (error: OsError) => {
    assert.equal(error.message, 'no hwmon sensor matches gpu*')
    assert.match(error.hint, /coretemp_Package_id_0, /)
    return true
  })
  assert.throws(() => source('hwmon', root, { match: '/(/' }), { code: 'CONFIG_INVALID' })
})

test('a sensor that vanishes keeps its slot; a re-open finds new ones; when all are gone the group is lost', async t => {
  const { root, put, take } = tree(t, CHIPS)
  const { source: chips } = source('hwmon', root)
  await chips.open(events)
  take(`${hwmon}/hwmon1`)
  const rows = await chips.read()
  assert.equal(rows.length, 8)
  assert.deepEqual(rows[7], ['nct6775_fan1', 'ERROR', null, 'rpm'])
  assert.deepEqual(rows[0]?.[2], 45)
  put(`${hwmon}/hwmon4/name`, 'bme280')
  put(`${hwmon}/hwmon4/humidity1_input`, '48123')
  assert.equal((await chips.read()).length, 8)
  await chips.close()
  await chips.open(events)
  assert.deepEqual((await chips.read())[0], ['bme280_humidity1', 'OK', 48.123, '%'])
  take(hwmon)
  await assert.rejects(chips.read(), { code: 'LINK_DOWN', message: 'the hwmon sensors are gone' })
})

test('a file without a number is a failed sensor, not a zero', async t => {
  const { root, put } = tree(t, { [`${hwmon}/hwmon0/name`]: 'x', [`${hwmon}/hwmon0/temp1_input`]: '1000' })
  const { source: chips } = source('hwmon', root)
  await chips.open(events)
  for (const text of ['', 'N/A\n', '12 34']) {
    put(`${hwmon}/hwmon0/temp1_input`, text)
    assert.deepEqual(await chips.read(), [['x_temp1', 'ERROR', null, 'Cel']])
  }
})

test('thermal zones are in degrees, and zones of one type are numbered', async t => {
  const zone = 'sys/class/thermal/thermal_zone'
  const { root } = tree(t, {
    [`${zone}0/type`]: 'cpu-thermal\n',
    [`${zone}0/temp`]: '48312\n',
    [`${zone}2/type`]: 'acpitz\n',
    [`${zone}2/temp`]: '27800\n',
    [`${zone}10/type`]: 'acpitz\n',
    [`${zone}10/temp`]: 'x\n',
    [`${zone}3/type`]: 'no temp here\n',
  })
  const { source: zones } = source('thermal', root)
  await zones.open(events)
  assert.deepEqual(await zones.read(), [
    ['thermal_cpu-thermal', 'OK', 48.312, 'Cel'],
    ['thermal_acpitz_2', 'OK', 27.8, 'Cel'],
    ['thermal_acpitz_10', 'ERROR', null, 'Cel'],
  ])
})

test('IIO: raw with scale and offset, processed values, units of the ABI, names of devices', async t => {
  const device = (n: number): string => `sys/bus/iio/devices/iio:device${n}`
  const { root, put } = tree(t, {
    [`${device(0)}/name`]: 'bme280\n',
    [`${device(0)}/in_temp_input`]: '23400\n',
    [`${device(0)}/in_pressure_input`]: '101.325000000\n',
    [`${device(0)}/in_humidityrelative_input`]: '45678\n',
    [`${device(1)}/name`]: 'ads1015\n',
    [`${device(1)}/in_voltage0_raw`]: '1000\n',
    [`${device(1)}/in_voltage0_label`]: 'battery\n',
    [`${device(1)}/in_voltage0_scale`]: '3.000000000\n',
    [`${device(1)}/in_voltage1_raw`]: '-5\n',
    [`${device(1)}/in_voltage_scale`]: '2\n',
    [`${device(1)}/in_voltage_offset`]: '105\n',
    [`${device(1)}/in_voltage2_raw`]: 'busy',
    [`${device(2)}/name`]: 'lis3mdl\n',
    [`${device(2)}/label`]: 'compass\n',
    [`${device(2)}/in_magn_x_raw`]: '5000\n',
    [`${device(2)}/in_magn_scale`]: '0.0001\n',
    [`${device(2)}/in_illuminance_raw`]: '7\n',
    'sys/bus/iio/devices/trigger0/name': 'sysfstrig\n',
  })
  const { source: iio } = source('iio', root)
  await iio.open(events)
  const rows = await iio.read()
  assert.deepEqual(
    rows.map(row => [row[0], row[1], row[2] === null ? null : Number(row[2].toPrecision(12)), row[3]]),
    [
      ['ads1015_battery', 'OK', 3.315, 'V'],
      ['ads1015_voltage1', 'OK', 0.2, 'V'],
      ['ads1015_voltage2', 'ERROR', null, 'V'],
      ['bme280_humidityrelative', 'OK', 45.678, '%'],
      ['bme280_pressure', 'OK', 101_325, 'Pa'],
      ['bme280_temp', 'OK', 23.4, 'Cel'],
      ['compass_illuminance', 'OK', 7, '{raw}'],
      ['compass_magn_x', 'OK', 0.00005, 'T'],
    ],
  )
  put(`${device(1)}/in_voltage_scale`, '4')
  assert.equal((await iio.read())[1]?.[2], 0.4)
})

test('IIO: two of one name are distinguished by their bus address', async t => {
  const { root, put } = tree(t)
  mkdirSync(join(root, 'sys/bus/iio/devices'), { recursive: true })
  for (const [n, place] of ['1-0077', '1-0076'].entries()) {
    put(`sys/devices/i2c-1/${place}/iio:device${n}/name`, 'bme280\n')
    put(`sys/devices/i2c-1/${place}/iio:device${n}/in_temp_input`, `${n}000\n`)
    symlinkSync(
      join(root, `sys/devices/i2c-1/${place}/iio:device${n}`),
      join(root, `sys/bus/iio/devices/iio:device${n}`),
    )
  }
  const { source: iio } = source('iio', root)
  await iio.open(events)
  assert.deepEqual(
    (await iio.read()).map(row => [row[0], row[2]]),
    [
      ['bme280_1-0076_temp', 1],
      ['bme280_1-0077_temp', 0],
    ],
  )
})

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
    const files = new SlowFiles({ deadlineMs: 60_000 })
    const { device, totalBytes, freeBytes, availableBytes } = await files.space(tmpdir())
    assert.deepEqual([device, totalBytes], [dev, blocks * bsize])
    assert.ok(availableBytes > 0 && availableBytes <= freeBytes && freeBytes <= totalBytes)
    await assert.rejects(files.space('/no/such/place'), { code: 'ENOENT' })
  }
  if (before === undefined) delete process.env.OS_NODE_NO_ADDON
  else process.env.OS_NODE_NO_ADDON = before
})

test('a file that hangs fails only its own sensor, is not read again while it hangs, and recovers', async t => {
  const { root } = tree(t, CHIPS)
  const timers = new ManualTimers(new ManualClock())
  let release = (): void => undefined
  let hangingReads = 0
  const files = new SlowFiles({
    timers,
    deadlineMs: 2500,
    read: async path => {
      if (path.endsWith('hwmon1/in0_input') && hangingReads++ === 0)
        await new Promise<void>(resolve => {
          release = resolve
        })
      return readFileSync(path, 'latin1')
    },
  })
  const { source: chips } = source('hwmon', root, {}, { files })
  await chips.open(events)
  const reading = chips.read()
  await timers.advance(2500)
  const rows = await reading
  assert.deepEqual(rows[4], ['nct6775_in0', 'ERROR', null, 'V'])
  assert.deepEqual(rows[7], ['nct6775_fan1', 'OK', 1203, 'rpm'])
  assert.equal(files.stuck, 1)
  assert.equal((await chips.read())[4]?.[1], 'ERROR')
  assert.equal(hangingReads, 1)
  release()
  await timers.advance(0)
  assert.equal(files.stuck, 0)
  assert.deepEqual((await chips.read())[4], ['nct6775_in0', 'OK', 1.064, 'V'])
  assert.equal(timers.pending, 0)
})

test('while two reads are pending no third is started, so that the threads that sync the log stay free', async () => {
  const timers = new ManualTimers(new ManualClock())
  let begun = 0
  const files = new SlowFiles({ timers, read: () => new Promise(() => begun++) })
  const reads = ['a', 'b'].map(path => assert.rejects(files.text(path), { code: 'TIMEOUT' }))
  await timers.advance(2500)
  await Promise.all(reads)
  await assert.rejects(files.text('c'), { code: 'TIMEOUT' })
  assert.equal(begun, 2)
})

test('with the addon a file that hangs fails only its own value, and is read again once it recovers', {
  skip: nativeOrNull() ? false : 'this machine has no C compiler',
}, async t => {
  const { root } = tree(t, { chip: '45000\n', other: '7\n' })
  const hanging = new HangingFile(join(root, 'hangs'))
  const { path } = hanging
  const clock = heldClock(t)
  const files = new SlowFiles({ deadlineMs: 40 })
  const first = assert.rejects(files.text(path), { code: 'TIMEOUT' })
  // queued after it, and still answered
  const behind = files.text(join(root, 'chip'))
  await hanging.begun()
  clock.pass(41)
  await first
  assert.equal(await behind, '45000\n')
  assert.equal(files.stuck, 1)
  await assert.rejects(files.text(path), { code: 'TIMEOUT' })
  assert.equal(await files.text(join(root, 'other')), '7\n')
  await assert.rejects(files.text(join(root, 'none')), error => isGone(error))
  hanging.letGo()
  await until('its thread is back', () => files.stuck === 0)
  writeFileSync(`${path}.new`, '1\n')
  renameSync(`${path}.new`, path)
  assert.equal(await files.text(path), '1\n')
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
