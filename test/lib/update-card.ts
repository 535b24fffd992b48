// Files that play the partitions of a card of the SD image, and updates for it.
import { createCipheriv, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type UpdateList, writeUpdate } from '../../src/update/file'
import { openSlots, type Slots } from '../../src/update/slots'
import { tempDir } from './gateway'

const place = tempDir()
export const MIB = 2 ** 20
export const at = (name: string): string => join(place, name)
const pair = generateKeyPairSync('ed25519')
export const { publicKey } = pair
export const pem = (key: KeyObject): string => String(key.export({ type: 'spki', format: 'pem' }))

/** Bytes that look compressed, the same for the same seed. */
function noise(seed: number, length: number): Buffer {
  const cipher = createCipheriv('aes-128-ctr', Buffer.alloc(16, seed), Buffer.alloc(16))
  return cipher.update(Buffer.alloc(length))
}

/** A boot partition with its command line, and the position of the digit of the root partition. */
export function bootOf(version: string, built: number, size = 2 * MIB): { bytes: Buffer; digit: number } {
  const bytes = noise(1, size)
  bytes.writeUInt16LE(0xaa55, 510)
  const line = `console=ttyAMA0 os_node.version=${version} os_node.built=${built} os_node.partition=5 quiet\n`
  bytes.write(line, 40_000, 'latin1')
  return { bytes, digit: 40_000 + line.indexOf('=5 ') + 1 }
}

export const rootOf = (change: string): Buffer => Buffer.concat([noise(2, 2 * MIB), Buffer.from(change), noise(3, MIB)])

/** A card that runs `version` in slot A. */
export function card(version = '1.0.0', { board = 'bench', chooser = 'sector' } = {}): Slots {
  const devices = at('devices')
  mkdirSync(devices, { recursive: true })
  writeFileSync(join(devices, 'id-02'), bootOf(version, 100).bytes)
  writeFileSync(join(devices, 'id-05'), rootOf('old'))
  for (const name of ['id-03', 'id-06']) writeFileSync(join(devices, name), Buffer.alloc(4 * MIB))
  for (const name of ['id-02', 'id-05']) truncateSync(join(devices, name), 4 * MIB)
  writeFileSync(at('disk'), Buffer.alloc(MIB))
  return running('A', version, { board, chooser })
}

export function running(slot: 'A' | 'B', version: string, { board = 'bench', chooser = 'sector' } = {}): Slots {
  const words = { board, version, built: 100, chooser, disk: 'id', partition: slot === 'A' ? 5 : 6 }
  const line = Object.entries(words).map(([name, value]) => `os_node.${name}=${value}`)
  writeFileSync(at('cmdline'), `console=tty1 ${line.join(' ')} ro\n`)
  return openSlots(at('cmdline'), at('devices'), at('disk'))
}

export function pack(to: string, version: string, more: Partial<UpdateList> = {}, key = pair.privateKey): string {
  const { bytes, digit } = bootOf(version, 200)
  writeFileSync(at('boot.part'), bytes)
  writeFileSync(at('root.part'), rootOf('new system'))
  const about = { board: 'bench', version, built_at: 200, partition_at: digit, ...more }
  writeUpdate(at(to), about, { boot: at('boot.part'), root: at('root.part') }, key)
  return at(to)
}
