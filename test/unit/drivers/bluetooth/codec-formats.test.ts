// Each format with the examples of its publisher; the bytes are those of its page.
import assert from 'node:assert/strict'
import { createCipheriv } from 'node:crypto'
import { test } from 'node:test'
import { localName, manufacturerData, serviceData } from '../../../../drivers/bluetooth/ad'
import { BthomeDecoder } from '../../../../drivers/bluetooth/bthome'
import { BthomeCipher } from '../../../../drivers/bluetooth/bthome-cipher'
import type { Decoder, Verdict } from '../../../../drivers/bluetooth/codec'
import { EddystoneDecoder } from '../../../../drivers/bluetooth/eddystone'
import { distance, IbeaconDecoder, parseIbeacon } from '../../../../drivers/bluetooth/ibeacon'
import { decodeRuuvi, RuuviDecoder } from '../../../../drivers/bluetooth/ruuvi'
import { manufacturerDataOf, serviceDataOf } from '../../../lib/ble'

const ADDRESS = '54:48:e6:8f:80:a5'
const KEY = Buffer.from('231d39c1d7cc1ab1aee224cd096db932', 'hex')

type Values = Record<string, number | null>

function heard(decoder: Decoder, data: Uint8Array, now = 0, rssi = -60): { verdict: Verdict; values: Values } {
  const values: Values = {}
  const verdict = decoder.decode(data, ADDRESS, rssi, now, (key, value) => {
    values[key] = value
  })
  return { verdict, values }
}

const bthome = (hex: string): Buffer => serviceDataOf(0xfcd2, hex)
const values = (hex: string): Values => heard(new BthomeDecoder(), bthome(hex)).values

test('the structures of an advertisement are split', () => {
  const data = Buffer.from('0201060b094449592d73656e736f720a16d2fc4002c40903bf13', 'hex')
  assert.equal(localName(data), 'DIY-sensor')
  const short = Buffer.from(data)
  short[4] = 0x08
  assert.equal(localName(short), 'DIY-sensor', 'a shortened name')
  assert.equal(Buffer.from(serviceData(data, 0xfcd2)!).toString('hex'), '4002c40903bf13')
  assert.equal(manufacturerData(data, 0x0499), null)
  assert.equal(serviceData(data.subarray(0, -1), 0xfcd2), null, 'a structure that is cut is none')
})

test('BTHome: the example of its page', () => {
  assert.deepEqual(values('4002c40903bf13'), { temperature: 25, humidity: 50.55 })
})

test('BTHome: the examples of its table', () => {
  const table: [hex: string, key: string, value: number][] = [
    ['0161', 'battery', 97],
    ['02ca09', 'temperature', 25.06],
    ['04138a01', 'pressure', 1008.83],
    ['05138a14', 'illuminance', 13_460.67],
    ['065e1f', 'mass', 80.3],
    ['073e1d', 'mass_lb', 74.86],
    ['08ca06', 'dewpoint', 17.38],
    ['0960', 'count', 96],
    ['0a138a14', 'energy', 1346.067],
    ['0b021b00', 'power', 69.14],
    ['0c020c', 'voltage', 3.074],
    ['0d120c', 'pm2_5', 3090],
    ['0e021c', 'pm10', 7170],
    ['12e204', 'co2', 1250],
    ['133301', 'tvoc', 307],
    ['14020c', 'moisture', 30.74],
    ['2e23', 'humidity', 35],
    ['2f23', 'moisture', 35],
    ['3d0960', 'count', 24_585],
    ['3e2a2c0960', 'count', 1_611_213_866],
    ['3f020c', 'rotation', 307.4],
    ['400c00', 'distance_mm', 12],
    ['414e00', 'distance', 7.8],
    ['424e3400', 'duration', 13.39],
    ['434e34', 'current', 13.39],
    ['444e34', 'speed', 133.9],
    ['451101', 'temperature', 27.3],
    ['4632', 'uv_index', 5],
    ['478756', 'volume', 2215.1],
    ['48dc87', 'volume_ml', 34_780],
    ['49dc87', 'volume_flow_rate', 34.78],
    ['4a020c', 'voltage', 307.4],
    ['4b138a14', 'gas', 1346.067],
    ['4c41018a01', 'gas', 25_821.505],
    ['4d12138a14', 'energy', 344_593.17],
    ['4e87562a01', 'volume', 19_551.879],
    ['505d396164', 'timestamp', 1_684_093_277],
    ['518756', 'acceleration', 22.151],
    ['528756', 'gyroscope', 22.151],
    ['57ea', 'temperature', -22],
    ['58ea', 'temperature', -7.7],
    ['59ea', 'count', -22],
    ['5aeaea', 'count', -5398],
    ['5c02fbffff', 'power', -12.78],
    ['5d02ea', 'current', -5.63],
    ['55878f5601', 'volume_storage', 22_450.055],
    ['56e803', 'conductivity', 1000],
    ['5be8030000', 'count', 1000],
    ['5e9f8c', 'direction', 359.99],
    ['5f8756', 'precipitation', 2215.1],
    ['6001', 'channel', 1],
    ['61ac0d', 'rotational_speed', 3500],
    ['6244a90c00', 'speed', 0.829764],
    ['6344a90c00', 'acceleration', 0.829764],
    ['6405', 'light_level', 5],
    ['1a01', 'door', 1],
    ['2d00', 'window', 0],
  ]
  for (const [hex, key, value] of table) assert.deepEqual(values(`40${hex}`), { [key]: value }, hex)
})

test('BTHome: a second object of a kind gets a number; an unknown object ends the packet', () => {
  assert.deepEqual(values('4002ca0902c409fe0102'), { temperature: 25.06, temperature_2: 25 })
  assert.deepEqual(values('405304414243440161'), { battery: 97 }, 'text is passed over')
  assert.deepEqual(values('40f0010002ca09f1000204000161'), { temperature: 25.06, battery: 97 })
  assert.equal(heard(new BthomeDecoder(), bthome('40fe01')).verdict, 'no object that is known')
  assert.match(String(heard(new BthomeDecoder(), bthome('2002ca09')).verdict), /version 1/)
})

test('BTHome: an event is counted once however often it is sent', () => {
  const decoder = new BthomeDecoder()
  assert.deepEqual(heard(decoder, bthome('44000a3a01')).values, { button: 1, button_count: 1 })
  assert.deepEqual(heard(decoder, bthome('44000a3a01')).values, {})
  assert.deepEqual(heard(decoder, bthome('44000b3a003a04')).values, {
    button: 0,
    button_count: 1,
    button_2: 4,
    button_count_2: 1,
  })
  const plain = new BthomeDecoder()
  assert.deepEqual(heard(plain, bthome('443c0203'), 0).values, { dimmer: 3, dimmer_count: 1 })
  assert.deepEqual(heard(plain, bthome('443c0203'), 500).values, {}, 'the same bytes within a moment')
  assert.deepEqual(heard(plain, bthome('443c0101'), 900).values, { dimmer: 2, dimmer_count: 2 })
})

test('BTHome: the encrypted example of its page; a wrong key, a replay and a downgrade are refused', () => {
  const sealed = bthome('41a47266c95f730011223378237214')
  const cipher = new BthomeCipher(KEY)
  const decoder = new BthomeDecoder(cipher)
  assert.deepEqual(heard(decoder, sealed), { verdict: '', values: { temperature: 25.06, humidity: 50.55 } })
  assert.deepEqual(heard(decoder, sealed).values, {}, 'the same one again')
  const wrong = new BthomeDecoder(new BthomeCipher(Buffer.alloc(16)))
  assert.match(String(heard(wrong, sealed).verdict), /bind_key does not fit/)
  assert.match(String(heard(decoder, bthome('4002ca09')).verdict), /plaintext/)
  assert.match(String(heard(new BthomeDecoder(), sealed).verdict), /bind_key/)
  const changed = Buffer.from(sealed)
  changed[8]! ^= 1
  assert.match(String(heard(new BthomeDecoder(new BthomeCipher(KEY)), changed).verdict), /bind_key does not fit/)
  const older = bthome('41a47266c95f730010223378237214')
  assert.match(String(heard(decoder, older).verdict), /sent again/)
  assert.match(
    String(heard(new BthomeDecoder(cipher), older).verdict),
    /sent again/,
    'nor after the link was opened anew',
  )
})

test('BTHome: a frame that contains the address is parsed after it, and the key is used with that address', () => {
  const mac = 'a5808fe64854' // as sent on the air
  assert.deepEqual(values(`42${mac}02ca0903bf13`), { temperature: 25.06, humidity: 50.55 })
  assert.equal(heard(new BthomeDecoder(), bthome(`42${mac.slice(2)}`)).verdict, 'too short')
  // encrypted with another address than the one it is received from
  const counter = Buffer.from('00112233', 'hex')
  const nonce = Buffer.concat([Buffer.from('0a0b0c0d0e0f', 'hex'), Buffer.from('d2fc43', 'hex'), counter])
  const cipher = createCipheriv('aes-128-ccm', KEY, nonce, { authTagLength: 4 })
  const sealed = Buffer.concat([cipher.update(Buffer.from('02ca0903bf13', 'hex')), cipher.final()])
  const frame = bthome(`430f0e0d0c0b0a${sealed.toString('hex')}00112233${cipher.getAuthTag().toString('hex')}`)
  assert.deepEqual(heard(new BthomeDecoder(new BthomeCipher(KEY)), frame).values, {
    temperature: 25.06,
    humidity: 50.55,
  })
  assert.match(String(heard(new BthomeDecoder(new BthomeCipher(Buffer.alloc(16))), frame).verdict), /does not fit/)
})

test('iBeacon: UUID, major, minor and power are read', () => {
  const data = manufacturerDataOf(0x004c, '0215e2c56db5dffb48d2b060d0f5a71096e000010002c5')
  const uuid = 'e2c56db5dffb48d2b060d0f5a71096e0'
  assert.deepEqual(parseIbeacon(data), { uuid, major: 1, minor: 2, measuredPower: -59 })
  assert.deepEqual(heard(new IbeaconDecoder({ uuid }, 2), data, 0, -79).values, {
    measured_power: -59,
    major: 1,
    minor: 2,
    distance: 10,
  })
  assert.equal(heard(new IbeaconDecoder({ uuid, minor: 3 }, 2), data).verdict, null)
  assert.equal(distance(-59, -59, 2), 1)
})

test('Eddystone telemetry: values, and those that a device does not measure', () => {
  const tlm = (hex: string): Values => heard(new EddystoneDecoder(), serviceDataOf(0xfeaa, hex)).values
  assert.deepEqual(tlm('20000bb8198000000064000003e8'), {
    battery: 3000,
    temperature: 25.5,
    advertisements: 100,
    uptime: 100,
  })
  assert.deepEqual(tlm('20000000800000000001ffffffff'), {
    battery: null,
    temperature: null,
    advertisements: 1,
    uptime: 429_496_729.5,
  })
  assert.equal(heard(new EddystoneDecoder(), serviceDataOf(0xfeaa, '00c5')).verdict, '')
  assert.match(String(heard(new EddystoneDecoder(), serviceDataOf(0xfeaa, '2001')).verdict), /encrypted/)
})

const ruuvi = (hex: string): Values => {
  const seen: Values = {}
  assert.equal(
    decodeRuuvi(Buffer.from(hex, 'hex'), (key, value) => {
      seen[key] = value
    }),
    '',
  )
  return seen
}

test('Ruuvi format 5: the test vectors of its page', () => {
  assert.deepEqual(ruuvi('0512fc5394c37c0004fffc040cac364200cdcbb8334c884f'), {
    temperature: 24.3,
    humidity: 53.49,
    pressure: 100_044,
    acceleration_x: 0.004,
    acceleration_y: -0.004,
    acceleration_z: 1.036,
    battery: 2.977,
    tx_power: 4,
    movements: 66,
    sequence: 205,
  })
  const highest = ruuvi('057ffffffefffe7fff7fff7fffffdefefffecbb8334c884f')
  assert.deepEqual([highest.temperature, highest.humidity, highest.pressure], [163.835, 163.835, 115_534])
  assert.deepEqual([highest.battery, highest.tx_power, highest.sequence], [3.646, 20, 65_534])
  const least = ruuvi('058001000000008001800180010000000000cbb8334c884f')
  assert.deepEqual(
    [least.temperature, least.humidity, least.pressure, least.acceleration_x, least.battery, least.tx_power],
    [-163.835, 0, 50_000, -32.767, 1.6, -40],
  )
  assert.deepEqual([least.movements, least.sequence], [0, 0])
  const none = ruuvi('058000ffffffff800080008000ffffffffffffffffffffff')
  assert.ok(
    Object.values(none).every(value => value === null),
    JSON.stringify(none),
  )
})

test('Ruuvi format 3: the test vectors of its page', () => {
  assert.deepEqual(ruuvi('03291a1ece1efc18f94202ca0b53'), {
    humidity: 20.5,
    temperature: 26.3,
    pressure: 102_766,
    acceleration_x: -1,
    acceleration_y: -1.726,
    acceleration_z: 0.714,
    battery: 2.899,
  })
  assert.equal(ruuvi('0300ff6300008001800180010000').temperature, -127.99)
})

const AIR = { temperature: 29.5, humidity: 55.3, pressure: 101_102, pm2_5: 11.2, co2: 201 }

test('Ruuvi formats 6 and E1: the test vectors of their pages', () => {
  const six = ruuvi('06170c5668c79e007000c90501d9ffcd004c884f')
  assert.deepEqual(six, { ...AIR, voc: 10, nox: 2, illuminance: 13_026.67, sequence: 205 })
  const none = ruuvi('068000ffffffffffffffffffffffffffffffffff')
  assert.deepEqual(
    Object.entries(none).filter(([, value]) => value !== null),
    [['sequence', 255]],
    'a byte that counts round has no value left over',
  )
  const dark = ruuvi('06170c5668c79e007000c9050100ffcd004c884f')
  assert.deepEqual([dark.illuminance, ruuvi('06170c5668c79e007000c90501feffcd004c884f').illuminance], [0, 65_535])
  assert.deepEqual(ruuvi('e1170c5668c79e0065007004bd11ca00c90a0213e0ac000000decdee110000000000cbb8334c884f'), {
    ...AIR,
    pm1: 10.1,
    pm4: 121.3,
    pm10: 455.4,
    voc: 20,
    nox: 4,
    illuminance: 13_027,
    sequence: 14_601_710,
  })
})

test('Ruuvi formats 6 and E1: the largest and smallest numbers are values, the next code means not available', () => {
  const climate = { temperature: 163.835, humidity: 163.835, pressure: 115_534 }
  assert.deepEqual(ruuvi('067ffffffefffefffefffefffffe000000000000'), {
    ...{ ...climate, pm2_5: 6553.4, co2: 65_534, voc: 510, nox: 510, illuminance: 65_535, sequence: 0 },
  })
  assert.deepEqual(ruuvi(`e17ffffffefffe${'fffe'.repeat(5)}fffffffffe000000fffffe3f${'00'.repeat(11)}`), {
    ...{ ...climate, pm1: 6553.4, pm2_5: 6553.4, pm4: 6553.4, pm10: 6553.4, co2: 65_534, voc: 510, nox: 510 },
    ...{ illuminance: 167_772.14, sequence: 16_777_214 },
  })
  const least = ruuvi(`e1800100000000${'00'.repeat(33)}`)
  assert.deepEqual(
    [least.temperature, least.pressure, least.voc, least.illuminance, least.sequence],
    [-163.835, 50_000, 0, 0, 0],
  )
  assert.deepEqual(Object.values(ruuvi(`e18000${'ff'.repeat(37)}`)), Array(12).fill(null))
})

test('Ruuvi format 6: a packet recorded from a device', () => {
  const seen = ruuvi('0610833ba0c086001b02320500ffffddd08fbabe')
  assert.equal(seen.temperature, 21.135)
  assert.equal(seen.humidity, 38.16)
  assert.deepEqual([seen.pm2_5, seen.co2, seen.voc, seen.nox, seen.sequence], [2.7, 562, 11, 1, 221])
  const data = manufacturerDataOf(0x0499, '05')
  assert.match(String(heard(new RuuviDecoder(), data).verdict), /cut short/)
})
