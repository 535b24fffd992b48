// A small image like the start of an os-node card: its partition table, and a start partition with os-node.conf.
// Needs: image
import { execFileSync } from 'node:child_process'
import { closeSync, openSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tempDir } from './gateway'

const MIB = 2 ** 20
/** offset of the start partition in the image */
export const START = MIB
export const START_BYTES = 6 * MIB
export const IMAGE_BYTES = 12 * MIB

/** Writes an image of 12 MiB; returns its path. */
export function makeCardImage(conf: string): string {
  const dir = tempDir()
  const fat = join(dir, 'start.img')
  closeSync(openSync(fat, 'w'))
  truncateSync(fat, START_BYTES)
  execFileSync('mkfs.vfat', ['--invariant', '-F', '16', '-s', '1', '-n', 'OS-NODE', fat], { stdio: 'pipe' })
  writeFileSync(join(dir, 'os-node.conf'), conf)
  writeFileSync(join(dir, 'autoboot.txt'), '[all]\n')
  for (const name of ['os-node.conf', 'autoboot.txt'])
    execFileSync('mcopy', ['-i', fat, join(dir, name), `::${name}`], { stdio: 'pipe' })
  const image = Buffer.alloc(IMAGE_BYTES)
  image.writeUInt32LE(0x6f736e64, 440)
  image[450] = 0x0c
  image.writeUInt32LE(START / 512, 454)
  image.writeUInt32LE(START_BYTES / 512, 458)
  image.writeUInt16LE(0xaa55, 510)
  readFileSync(fat).copy(image, START)
  // vary the content
  for (let at = START + START_BYTES; at < image.length; at += 997) image[at] = at % 251
  const path = join(dir, 'os-node-rpi-4-1.2.3.img')
  writeFileSync(path, image)
  return path
}
