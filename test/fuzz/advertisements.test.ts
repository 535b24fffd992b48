// Advertisements as any sender in radio range may send them: every format reads every input, with and without a key.

import { localName } from '../../drivers/bluetooth/ad'
import { BthomeDecoder } from '../../drivers/bluetooth/bthome'
import { BthomeCipher } from '../../drivers/bluetooth/bthome-cipher'
import { EddystoneDecoder } from '../../drivers/bluetooth/eddystone'
import { IbeaconDecoder } from '../../drivers/bluetooth/ibeacon'
import { RuuviDecoder } from '../../drivers/bluetooth/ruuvi'
import { manufacturerDataOf, serviceDataOf } from '../lib/ble'
import { fuzz } from './harness'

const KEY = Buffer.from('231d39c1d7cc1ab1aee224cd096db932', 'hex')
const uuid = 'e2c56db5dffb48d2b060d0f5a71096e0'
const decoders = [
  new BthomeDecoder(),
  new BthomeDecoder(new BthomeCipher(KEY)),
  new IbeaconDecoder({ uuid }, 2),
  new EddystoneDecoder(),
  new RuuviDecoder(),
]
let now = 0

fuzz({
  name: 'advertisements',
  seeds: [
    serviceDataOf(0xfcd2, '4400093a013c0203'),
    serviceDataOf(0xfcd2, '4002ca0903bf1353054142434445'),
    serviceDataOf(0xfcd2, '41a47266c95f730011223378237214'),
    manufacturerDataOf(0x004c, `0215${uuid}00010002c5`),
    serviceDataOf(0xfeaa, '20000bb8198000000064000003e8'),
    manufacturerDataOf(0x0499, '0512fc5394c37c0004fffc040cac364200cdcbb8334c884f'),
    manufacturerDataOf(0x0499, '03291a1ece1efc18f94202ca0b53'),
    manufacturerDataOf(0x0499, '0610833ba0c086001b02320500ffffddd08fbabe'),
    manufacturerDataOf(0x0499, `e1${'11'.repeat(39)}`),
    Buffer.from('0201060b094449592d73656e736f720a16d2fc4002c40903bf13', 'hex'),
  ],
  run: input => {
    now += 100
    let values = 0
    const verdicts = decoders.map(decoder =>
      decoder.decode(input, '54:48:e6:8f:80:a5', -60, now, (key, value) => {
        if (key === '' || (value !== null && !Number.isFinite(value))) throw new Error(`${key} is ${value}`)
        values++
      }),
    )
    const kinds = verdicts.map(verdict => (verdict === null ? '-' : verdict === '' ? 'y' : 'n')).join('')
    return `${kinds} ${Math.min(values, 9)} ${localName(input) === null}`
  },
  growing: {
    structures: n => Buffer.alloc(n, Buffer.of(1, 9)),
    objects: n => serviceDataOf(0xfcd2, `40${'0161'.repeat(Math.min(120, n >> 1))}`),
  },
})
