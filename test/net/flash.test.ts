// `os-node flash` on a real block device: a loop device, which the kernel does not call removable, so only that part of its listing
// differs. The kernel itself refuses a device in use.
// Needs: loop image ext4
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { after, test } from 'node:test'
import { flash } from '../../src/update/flash'
import { makeCardImage, START, START_BYTES } from '../lib/card-image'
import { tempDir } from '../lib/gateway'

const MIB = 2 ** 20
const dir = tempDir()
const image = makeCardImage('# Settings of this gateway\n')
const file = join(dir, 'card')
closeSync(openSync(file, 'w'))
truncateSync(file, 64 * MIB)
const device = execFileSync('losetup', ['--show', '-f', file], { encoding: 'utf8' }).trim()
after(() => execFileSync('losetup', ['-d', device]))

const sys = join(dir, 'sys')
const block = join(sys, 'block', basename(device))
mkdirSync(block, { recursive: true })
for (const [name, text] of Object.entries({ size: `${(64 * MIB) / 512}`, removable: '1', ro: '0', dev: '7:99' }))
  writeFileSync(join(block, name), text)
const run = (proc = '/proc') =>
  flash({ device, image, yes: true, hostname: 'loop', print: () => {}, machine: { sys, dev: '/dev', proc } })

test("a block device contains the image with its settings, read without the kernel's cache", async () => {
  await run()
  execFileSync('sync')
  const got = readFileSync(file)
  const wanted = readFileSync(image)
  assert.ok(got.subarray(START + START_BYTES, wanted.length).equals(wanted.subarray(START + START_BYTES)))
  assert.ok(got.subarray(0, MIB).equals(wanted.subarray(0, MIB)))
  const conf = execFileSync('mcopy', ['-i', `${device}@@${START}`, '::os-node.conf', '-'], { encoding: 'utf8' })
  assert.equal(conf, '# Settings of this gateway\n\n# by os-node flash\nhostname=loop\n')
})

test('a mounted device is refused by the list of mounts, and by the kernel where the list lacks it', async () => {
  execFileSync('mkfs.ext4', ['-q', '-F', device], { stdio: 'pipe' })
  const at = join(dir, 'mnt')
  mkdirSync(at)
  execFileSync('mount', [device, at])
  try {
    await assert.rejects(run(), { code: 'E_FLASH', message: new RegExp(`mounted at ${at}`) })
    await assert.rejects(run(join(dir, 'none')), { code: 'E_FLASH', message: new RegExp(`${device} is in use`) })
  } finally {
    execFileSync('umount', [at])
    execFileSync('sync')
  }
  // its file system is unchanged
  assert.equal(readFileSync(file).readUInt16LE(1080), 0xef53)
})
