import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  array,
  integer,
  maxValue,
  minLength,
  minValue,
  number,
  object,
  optional,
  picklist,
  pipe,
  string,
  union,
} from 'valibot'
import type { MediumDriver, SourceDriver } from '../../../src/links/contracts'
import { checkOptions } from '../../../src/links/driver-options'
import { safeName, safeNames } from '../../../src/links/names'
import { MEDIA, mediumInfo, portOf, Registry } from '../../../src/links/registry'

const medium = (name: string): MediumDriver => ({ medium: name, create: () => assert.fail('not made here') })
const source = (type: string): SourceDriver => ({ type, create: () => assert.fail('not made here') })

test('the table of media matches the specification: 11 names, layers, ports and keys', () => {
  assert.deepEqual(
    MEDIA.map(m => [m.name, m.layer, m.default_port, m.config_key]),
    [
      ['UDP', 'L4', 8080, 'transport_options.port'],
      ['TCP', 'L4', 8888, 'transport_options.port'],
      ['QUIC', 'L4', 4433, 'transport_options.port'],
      ['MQTT', 'application', 1883, 'application_config.mqtt'],
      ['UART', 'L1', 'serial port name', 'physical_config.uart'],
      ['RS485', 'L1', 'serial port name', 'physical_config.rs485'],
      ['CAN', 'L1', null, 'physical_config.can'],
      ['LoRa', 'L1', null, 'physical_config.lora'],
      ['Bluetooth', 'L1', 5454, 'physical_config.bluetooth'],
      ['IWIP', 'L4', null, 'transport_config.iwip'],
      ['UIP', 'L4', null, 'transport_config.uip'],
    ],
  )
  assert.equal(mediumInfo('lora')?.name, 'LoRa')
  assert.equal(mediumInfo('LORA')?.status, 'physical_status')
  assert.equal(mediumInfo('constructor'), undefined)
})

test('drivers are found in any case and loaded on first use only', async () => {
  let loads = 0
  const registry = new Registry({
    media: {
      udp: async () => {
        loads++
        return medium('UDP')
      },
      X25: async () => medium('X25'),
    },
    sources: { cpu: async () => source('cpu') },
  })
  assert.deepEqual(registry.media(), ['UDP', 'x25'])
  assert.equal(loads, 0)
  assert.equal((await registry.mediumDriver('Udp')).medium, 'UDP')
  assert.equal(registry.hasMedium('UDP'), true)
  assert.equal(loads, 1)
  assert.equal((await registry.sourceDriver('cpu')).type, 'cpu')
  assert.deepEqual(registry.sourceTypes(), ['cpu'])
})

test('a name without a driver is NO_DRIVER in the words of the specification', async () => {
  const registry = new Registry({
    media: {
      can: () => Promise.reject(new Error('module broken')),
    },
  })
  await assert.rejects(registry.mediumDriver('TCP'), { code: 'NO_DRIVER', message: 'No available driver: TCP' })
  await assert.rejects(registry.mediumDriver('toString'), { code: 'NO_DRIVER' })
  await assert.rejects(registry.mediumDriver('CAN'), { code: 'NO_DRIVER', hint: 'module broken' })
  await assert.rejects(registry.sourceDriver('constructor'), { code: 'NO_DRIVER' })
})

test('native names become safe ones, and two that would become equal are refused', () => {
  assert.equal(safeName('Package id 0'), 'Package_id_0')
  assert.equal(safeName('+3.3V'), '3_3V')
  assert.equal(safeName('Gerät°1'), 'Gerat_1')
  assert.equal(safeName('_a-b_'), '_a-b_')
  assert.equal(safeName('net.eth0|x;y>z:@'), 'net_eth0_x_y_z')
  assert.throws(() => safeName('°°'), { code: 'CONFIG_INVALID' })
  assert.throws(() => safeName(''), { code: 'CONFIG_INVALID' })
  assert.deepEqual(safeNames(['a b', 'c']), ['a_b', 'c'])
  assert.throws(() => safeNames(['a b', 'a_b']), /two names become a_b: "a b", "a_b"/)
})

test('options are checked against the schema and every wrong key is named', () => {
  const schema = object({ port: pipe(optional(number(), 8080), minValue(1)), deep: optional(object({ n: number() })) })
  assert.deepEqual(checkOptions(schema, undefined, 'udp'), { port: 8080 })
  assert.throws(
    () => checkOptions(schema, { port: 'x', deep: { n: '1' } }, 'udp'),
    (error: Error & { code: string }) => {
      assert.equal(error.code, 'CONFIG_INVALID')
      assert.match(error.message, /options of udp: port: .*; deep\.n: /)
      return true
    },
  )
})

test('an option error is in plain words, with the nearest name, and shows no secret', () => {
  const schema = object({
    table: picklist(['holding', 'coil']),
    n: pipe(number(), integer(), minValue(1), maxValue(5)),
    list: pipe(array(number()), minLength(1)),
    key: pipe(string(), minLength(8)),
    either: union([number(), string()]),
  })
  const good = { table: 'coil', n: 1, list: [1], key: '12345678', either: 'a' }
  const says = (wrong: object): string => {
    try {
      checkOptions(schema, { ...good, ...wrong }, 'x')
      return ''
    } catch (error) {
      return (error as Error).message.replace('options of x: ', '')
    }
  }
  assert.equal(says({}), '')
  assert.equal(says({ table: 'coils' }), 'table: must be one of holding, coil; did you mean coil?')
  assert.equal(says({ n: 'a' }), 'n: must be a number')
  assert.equal(says({ n: undefined }), 'n: is required')
  assert.throws(() => checkOptions(schema, {}, 'x'), /x: table: is required; n: is required; list: is required/)
  assert.equal(says({ n: 1.5 }), 'n: must be a whole number')
  assert.equal(says({ n: 0 }), 'n: must be at least 1')
  assert.equal(says({ n: 6 }), 'n: must be at most 5')
  assert.equal(says({ list: [] }), 'list: must not be empty')
  assert.equal(says({ list: 3 }), 'list: must be a list')
  assert.equal(says({ key: 'secret' }), 'key: must not be shorter than 8')
  assert.equal(says({ either: true }), 'either: must be number or string')
})

test('the port is the configured one, otherwise the default; a broker with TLS uses 8883', () => {
  assert.equal(portOf('mqtt', {}), 1883)
  assert.equal(portOf('MQTT', { tls: { ca: 'ca.pem' } }), 8883)
  assert.equal(portOf('MQTT', { tls: true, port: 1884 }), 1884)
  assert.equal(portOf('TCP', { tls: true, port: 0 }), 8888)
  assert.equal(portOf('pigeon', {}), undefined)
})
