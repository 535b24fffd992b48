import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hwmonChannel, iioChannel } from '../../../../drivers/host/channels'
import {
  busyPercent,
  isVirtualInterface,
  naturalOrder,
  oneNumber,
  parseCpu,
  parseLoad,
  parseMemory,
  parseNetDev,
  parseUptime,
} from '../../../../drivers/host/codec'
import { matcher } from '../../../../drivers/kit/match'

const STAT = `cpu  7331 12 4042 333099 203 0 63 10 5 1
cpu0 2962 0 1856 167498 18 0 15 5 0 0
intr 123 0 0
ctxt 456
btime 1710000000
`

const MEMINFO = `MemTotal:        3884364 kB
MemFree:          210452 kB
MemAvailable:    2884364 kB
Buffers:           41804 kB
Cached:          2270976 kB
SwapCached:            0 kB
SwapTotal:        102396 kB
SwapFree:          51198 kB
HugePages_Total:       0
DirectMap4k:      139264 kB
`

const NETDEV = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0
  eth0: 522949321   13378    1    2    0     0          0         0   996924    8759    3    4    0     0       0          0
 wlan0:12345678901 99 0 0 0 0 0 0 55 1 0 0 0 0 0 0
broken: 1 2 3
`

test('the cpu line: guest ticks are not counted twice, iowait counts as idle', () => {
  const ticks = parseCpu(STAT)!
  assert.equal(ticks.total, 7331 + 12 + 4042 + 333_099 + 203 + 0 + 63 + 10)
  assert.equal(ticks.busy, 7331 + 12 + 4042 + 63 + 10)
  assert.deepEqual(parseCpu('cpu  1 2 3 4\n'), { total: 10, busy: 6 })
  assert.equal(parseCpu('cpu0 1 2 3 4\n'), null)
  assert.equal(parseCpu('cpu  1 x 3 4\n'), null)
  assert.equal(parseCpu(''), null)
})

test('busy per cent is computed from the ticks between two reads and stays within 0 and 100', () => {
  assert.equal(busyPercent({ busy: 100, total: 1000 }, { busy: 150, total: 1200 }), 25)
  assert.equal(busyPercent({ busy: 100, total: 1000 }, { busy: 100, total: 1000 }), null)
  assert.equal(busyPercent({ busy: 100, total: 1000 }, { busy: 99, total: 1200 }), 0)
  assert.equal(busyPercent({ busy: 100, total: 1000 }, { busy: 400, total: 1200 }), 100)
})

test('loadavg, uptime and single numbers are parsed', () => {
  assert.deepEqual(parseLoad('0.52 1.03 12.00 2/345 6789\n'), [0.52, 1.03, 12])
  assert.equal(parseLoad('0.52 1.03'), null)
  assert.equal(parseLoad('a b c d'), null)
  assert.equal(parseUptime('1728.61 3331.00\n'), 1728.61)
  assert.equal(parseUptime(''), null)
  assert.equal(oneNumber(' -12500\n'), -12_500)
  assert.equal(oneNumber('0.000244140\n'), 0.00024414)
  for (const text of ['', '\n', '1 2', 'n/a', '12 dB', 'Infinity']) assert.equal(oneNumber(text), null)
})

test('meminfo is in bytes; a kernel without MemAvailable works', () => {
  assert.deepEqual(parseMemory(MEMINFO), {
    total: 3_884_364 * 1024,
    available: 2_884_364 * 1024,
    swapTotal: 102_396 * 1024,
    swapFree: 51_198 * 1024,
  })
  assert.equal(parseMemory(MEMINFO.replace(/^MemAvailable.*$/m, ''))?.available, (210_452 + 41_804 + 2_270_976) * 1024)
  assert.equal(parseMemory('nothing'), null)
})

test('net/dev is parsed by interface, also where the name touches the first number; short lines are skipped', () => {
  const devices = parseNetDev(NETDEV)
  assert.deepEqual([...devices.keys()], ['lo', 'eth0', 'wlan0'])
  assert.deepEqual(devices.get('eth0'), {
    rxBytes: 522_949_321,
    rxPackets: 13_378,
    txBytes: 996_924,
    txPackets: 8759,
    errors: 4,
    drops: 6,
  })
  assert.equal(devices.get('wlan0')?.rxBytes, 12_345_678_901)
})

test('virtual interfaces are recognized by name', () => {
  for (const name of ['lo', 'veth12ab', 'docker0', 'br-1f2e', 'virbr0', 'cni0', 'ifb1', 'vcan0', 'can0', 'dummy0'])
    assert.equal(isVirtualInterface(name), true, name)
  for (const name of ['eth0', 'enp3s0', 'wlan0', 'wlp2s0', 'wwan0', 'usb0', 'br0', 'bond0', 'wg0', 'tun0', 'end0'])
    assert.equal(isVirtualInterface(name), false, name)
})

test('natural order compares digits as numbers', () => {
  assert.deepEqual(['eth10', 'eth2', 'wlan0', 'eth1', 'eth'].sort(naturalOrder), [
    'eth',
    'eth1',
    'eth2',
    'eth10',
    'wlan0',
  ])
  assert.deepEqual(['temp10_input', 'temp9_input'].sort(naturalOrder), ['temp9_input', 'temp10_input'])
})

test('hwmon files: kind, unit and scale by the kernel ABI; other files give no reading', () => {
  const unit = (file: string, ...others: string[]) => {
    const channel = hwmonChannel(file, new Set([file, ...others]))
    return channel && [channel.stem, channel.unit, channel.divide]
  }
  assert.deepEqual(unit('temp1_input'), ['temp1', 'Cel', 1000])
  assert.deepEqual(unit('in0_input'), ['in0', 'V', 1000])
  assert.deepEqual(unit('curr12_input'), ['curr12', 'A', 1000])
  assert.deepEqual(unit('power1_input'), ['power1', 'W', 1_000_000])
  assert.deepEqual(unit('power1_average'), ['power1', 'W', 1_000_000])
  assert.equal(unit('power1_average', 'power1_input'), undefined)
  assert.deepEqual(unit('fan2_input'), ['fan2', 'rpm', 1])
  assert.deepEqual(unit('humidity1_input'), ['humidity1', '%', 1000])
  assert.deepEqual(unit('energy1_input'), ['energy1', 'J', 1_000_000])
  assert.deepEqual(unit('freq1_input'), ['freq1', 'Hz', 1])
  for (const file of ['temp1_max', 'temp1_label', 'pwm1', 'name', 'temp_input', 'constructor1_input', 'temp1_average'])
    assert.equal(unit(file), undefined, file)
})

test('IIO files: type, unit, and the nearest scale and offset', () => {
  const channel = (file: string, ...others: string[]) => iioChannel(file, new Set([file, ...others]))
  assert.deepEqual(channel('in_temp_raw', 'in_temp_scale', 'in_temp_offset'), {
    unit: 'Cel',
    divide: 1000,
    stem: 'temp',
    file: 'in_temp_raw',
    scale: 'in_temp_scale',
    offset: 'in_temp_offset',
  })
  assert.equal(channel('in_voltage3_raw', 'in_voltage_scale', 'in_voltage3_scale')?.scale, 'in_voltage3_scale')
  assert.equal(channel('in_voltage3_raw', 'in_voltage_scale')?.scale, 'in_voltage_scale')
  assert.equal(channel('in_accel_x_raw', 'in_accel_scale')?.scale, 'in_accel_scale')
  assert.equal(channel('in_accel_x_raw', 'in_accel_scale', 'in_accel_x_scale')?.scale, 'in_accel_x_scale')
  const pair = channel('in_voltage0-voltage1_raw', 'in_voltage-voltage_scale', 'in_voltage_scale')
  assert.deepEqual([pair?.stem, pair?.scale], ['voltage0-voltage1', 'in_voltage-voltage_scale'])
  assert.equal(channel('in_temp_object_raw', 'in_temp_scale')?.scale, 'in_temp_scale')
  assert.equal(channel('in_intensity_both_raw')?.unit, '{1}')
  // a raw number with an unknown scale has no unit
  assert.deepEqual([channel('in_voltage0_raw')?.unit, channel('in_voltage0_raw')?.divide], ['{raw}', 1])
  assert.equal(channel('in_proximity_raw')?.unit, '{raw}')
  assert.equal(channel('in_proximity_raw', 'in_proximity_scale')?.unit, 'm')
  // both files of one channel are one sensor
  assert.equal(channel('in_pressure_raw', 'in_pressure_input'), undefined)
  assert.equal(channel('in_pressure_input', 'in_pressure_raw')?.unit, 'Pa')
  for (const file of [
    'in_timestamp_en',
    'in_voltage0_scale',
    'out_voltage0_raw',
    'in_rot_quaternion_raw',
    'in_unheard_raw',
    'in_toString_raw',
    'in_accel_x_calibbias',
    'name',
  ])
    assert.equal(channel(file), undefined, file)
})

test('match accepts a glob, several globs, and regular expressions', () => {
  assert.equal(matcher(undefined)('x'), true)
  assert.equal(matcher('')('x'), true)
  assert.equal(matcher('*')('x'), true)
  assert.equal(matcher('temp*')('temp1'), true)
  assert.equal(matcher('temp*')('a_temp1'), false)
  assert.equal(matcher('temp?, fan1')('fan1'), true)
  assert.equal(matcher('temp?, fan1')('temp12'), false)
  assert.equal(matcher('a.b')('aXb'), false)
  assert.equal(matcher('/core/i')('coretemp_Core_0'), true)
  assert.equal(matcher('/^core$/')('coretemp'), false)
  assert.throws(() => matcher('/(/'), { code: 'CONFIG_INVALID' })
})
