// Checksums: the published check values, ranges and seeds, and the detection of a flipped bit.

import assert from 'node:assert/strict'
import type { PluginCheck } from '../checks'
import { crc8, crc16, crc32c, crcBits, readHeader, sealFrame, writeHeader } from '../program'

const NINE = Buffer.from('123456789')

/** Pseudo-random bytes, equal in each run. */
const noise = (length: number): Buffer => {
  let seed = 0x2545f491
  return Buffer.from(
    Array.from({ length }, () => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
      return seed >>> 24
    }),
  )
}

function frame(): Buffer {
  const out = Buffer.alloc(40)
  const body = writeHeader(out, 0, 0xaa, 0x01020304, 7, 1_710_000_000_123)
  out.set([2, 3, 49, 50, 51], body)
  return out.subarray(0, sealFrame(out, 0, body, body + 5))
}

export const crcChecks: readonly PluginCheck[] = [
  ['CRC-8 of 123456789', () => assert.equal(crc8(NINE), 0xf4)],
  ['CRC-16 of 123456789', () => assert.equal(crc16(NINE), 0x29b1)],
  ['CRC-32C of 123456789', () => assert.equal(crc32c(NINE) >>> 0, 0xe3069283)],
  [
    'nothing gives the start value',
    () => assert.deepEqual([crc8(Buffer.alloc(0)), crc16(Buffer.alloc(0))], [0, 0xffff]),
  ],
  [
    'tables and bit by bit agree',
    () => {
      const bytes = noise(2048)
      assert.equal(crc8(bytes), crcBits(8, 0x07, 0, bytes))
      assert.equal(crc16(bytes), crcBits(16, 0x1021, 0xffff, bytes))
    },
  ],
  [
    'two parts give the whole',
    () => {
      const bytes = noise(513)
      for (const cut of [0, 1, 255, 256, 512, 513]) {
        assert.equal(crc8(bytes, cut, 513, crc8(bytes, 0, cut)), crc8(bytes))
        assert.equal(crc16(bytes, cut, 513, crc16(bytes, 0, cut)), crc16(bytes))
      }
    },
  ],
  [
    'every flipped bit of a frame is seen',
    () => {
      const good = frame()
      assert.equal(broken(good), false)
      for (let bit = 0; bit < good.length * 8; bit++) {
        const bad = Buffer.from(good)
        bad[bit >> 3]! ^= 1 << (bit & 7)
        assert.equal(broken(bad), true, `bit ${bit}`)
      }
    },
  ],
]

const broken = (packet: Uint8Array): boolean => {
  const header = readHeader(packet)
  return typeof header === 'string' || !header.crc16Ok
}
