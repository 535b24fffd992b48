// Sensors that the kernel knows: hwmon, thermal zones and IIO, their names, units and order, and those that vanish.
import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { HOST_TYPES } from '../../../../drivers/host/index'
import type { OsError } from '../../../../src/lib/errors'
import type { SourceReading } from '../../../../src/links/contracts'
import { CHIPS, events, hwmon, source, tree } from './host-world'

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
