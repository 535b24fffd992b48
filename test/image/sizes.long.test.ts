// Images as `npm run image` makes them for a Raspberry Pi: one is packed, with its checksum and the lists of Raspberry Pi Imager, and has the size that
// docs/flash.md names; those of the boards that no emulator has are built, with every partition; that of Raspberry Pi 5 is packed, too. Only `npm run test:image` makes them.
// Only: npm run test:image
// Needs: x64 boards debs image
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { root, tempDir } from '../lib/gateway'
import { MIB, PLACES } from './board'

interface Maker {
  makeImage(root: string, options: object): string
}
interface OsList {
  os_list: [Record<string, unknown>]
}
const URL_OF = 'https://example.org/os-node'

/** Makes the image of a board: where it is, what was said, and the seconds it took. */
async function make(board: string, more: object) {
  const { makeImage } = (await import(join(root, 'src/build/image/index.mjs'))) as Maker
  const said: string[] = []
  const at = performance.now()
  const what = { board, version: '1.2.3', builtAt: Date.parse('2026-01-02T03:04:05Z'), out: tempDir() }
  const path = makeImage(root, { ...what, ...more, say: (line: string) => said.push(line) })
  return { path, said, seconds: Math.round((performance.now() - at) / 1000) }
}

const sha256 = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex')

/** All partitions of a card are where boards look for them, and the parts of slot A are there. */
function checkPartitions(path: string): void {
  const { partitiontable: table } = JSON.parse(execFileSync('sfdisk', ['--json', path], { encoding: 'utf8' })) as {
    partitiontable: { partitions: { start: number; size: number }[] }
  }
  const starts = table.partitions.map(({ start }) => start * 512)
  const { start, bootA, bootB, rootA, data } = PLACES
  for (const place of [start, bootA, bootB, rootA, rootA + 129 * MIB, data])
    assert.ok(starts.includes(place), `${place}`)
  const files = (place: number): string =>
    execFileSync('mdir', ['-b', '-i', `${path}@@${place}`, '::'], { encoding: 'utf8' })
  assert.match(files(start), /^::\/os-node\.conf$/m)
  for (const name of ['cmdline.txt', 'kernel8.img', 'initramfs']) assert.ok(files(bootA).includes(`::/${name}\n`), name)
  const card = readFileSync(path)
  assert.equal(card.toString('latin1', rootA, rootA + 4), 'hsqs', 'slot A has a squashfs')
  const shipped = ['-o', String(rootA), '-cat', path, 'usr/share/os-node/etc/Config.json']
  const config = JSON.parse(execFileSync('unsquashfs', shipped, { encoding: 'utf8' })) as { web_user: object }
  assert.deepEqual(config.web_user, { ...config.web_user, tls: 'self_signed', redirect_port: 80 })
  assert.ok(
    card.subarray(bootB, bootB + 48 * MIB).every(byte => byte === 0),
    'slot B is empty',
  )
}

test('the image of Raspberry Pi 4 has at most 90 MB packed and 512 MB unpacked, its checksum and the lists of Imager', async t => {
  const { path, said, seconds } = await make('rpi-4', { url: URL_OF })
  const packed = `${path}.xz`
  const sizes = { packed: statSync(packed).size, unpacked: statSync(path).size }
  t.diagnostic(
    `packed ${sizes.packed / 1e6} MB, unpacked ${sizes.unpacked / 1e6} MB, made in ${seconds} s\n${said.join('\n')}`,
  )
  assert.ok(sizes.packed <= 90e6 && sizes.unpacked <= 512e6)
  checkPartitions(path)
  const sum = sha256(packed)
  assert.equal(readFileSync(`${packed}.sha256`, 'utf8'), `${sum}  os-node-rpi-4-1.2.3.img.xz\n`)
  const unpacked = sha256(path)
  rmSync(path)
  execFileSync('xz', ['-dk', packed])
  assert.equal(sha256(path), unpacked)
  for (const [list, url] of [
    ['imager.json', `${URL_OF}/os-node-rpi-4-1.2.3.img.xz`],
    ['rpi-imager-manifest', pathToFileURL(packed).href],
  ]) {
    const { os_list: offered } = JSON.parse(readFileSync(path.replace(/img$/, list!), 'utf8')) as OsList
    assert.equal(offered.length, 1)
    const { extract_size, extract_sha256, image_download_size, image_download_sha256, ...about } = offered[0]
    assert.deepEqual([extract_size, extract_sha256], [sizes.unpacked, unpacked])
    assert.deepEqual([image_download_size, image_download_sha256], [sizes.packed, sum])
    assert.deepEqual([about.url, about.devices, about.init_format], [url, ['pi4-64bit'], 'cloudinit'])
  }
})

for (const board of ['rpi-5', 'rpi-zero-2-w', 'cm4'])
  test(`the image of ${board} is built, with all of its partitions`, async t => {
    // the largest is packed: no more than 90 MB are allowed
    const { path, said, seconds } = await make(board, { quick: board !== 'rpi-5' })
    t.diagnostic(`${board}: ${seconds} s, ${said.at(-1)}`)
    checkPartitions(path)
    rmSync(path)
  })
