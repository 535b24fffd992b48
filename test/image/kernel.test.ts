// A kernel supplied by the caller for an image: only a package with the named hash, for the right processor, and with a kernel inside is
// accepted.
// Needs: image
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import { root, tempDir } from '../lib/gateway'

interface Modules {
  layOutKernel(kernel: { deb: string; sha256?: string | undefined }, to: string): void
  takeModules(base: string, tree: string): string
  packedKernel(base: string, release: string): Buffer
  ownOverlays(base: string, release: string): Record<string, Buffer> | undefined
  modulesInOrder(folder: string, wanted: string[]): string[]
  overlayLines(files: object, overlays: string[]): string
  makeImage(root: string, options: object): string
}
const load = async (name: string): Promise<Modules> => (await import(join(root, 'src/build/image', name))) as Modules

const RELEASE = '6.12.47+rpt-rpi-2712'
const KERNEL = {
  [`boot/vmlinuz-${RELEASE}`]: 'kernel',
  [`lib/modules/${RELEASE}/modules.dep`]: 'kernel/fs/b.ko.xz: kernel/fs/a.ko.xz\nkernel/fs/a.ko.xz:\n',
  [`lib/modules/${RELEASE}/modules.builtin`]: 'kernel/fs/inside.ko\n',
  [`usr/lib/linux-image-${RELEASE}/overlays/spi0-2cs.dtbo`]: 'spi',
  [`usr/lib/linux-image-${RELEASE}/overlays/overlay_map.dtb`]: 'map',
  [`usr/lib/linux-image-${RELEASE}/overlays/README`]: 'text',
}

function put(dir: string, files: Record<string, string | Uint8Array>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true })
    writeFileSync(join(dir, path), content)
  }
}

/** A package with `files`; its path and hash. */
function pack(files: Record<string, string>, arch = 'arm64'): { deb: string; sha256: string } {
  const dir = tempDir()
  const about = {
    Package: 'linux-image',
    Version: '1',
    Architecture: arch,
    Maintainer: 'x <x@example.org>',
    Description: 'x',
  }
  const control = Object.entries(about).map(([name, value]) => `${name}: ${value}\n`)
  put(join(dir, 'tree'), { ...files, 'DEBIAN/control': control.join('') })
  const deb = join(dir, 'kernel.deb')
  execFileSync('dpkg-deb', ['--root-owner-group', '-b', join(dir, 'tree'), deb], { stdio: 'pipe' })
  return { deb, sha256: createHash('sha256').update(readFileSync(deb)).digest('hex') }
}

test('a package is unpacked if its hash is right; its modules replace those of Debian, its overlays ours', async () => {
  const { layOutKernel, takeModules, packedKernel, ownOverlays } = await load('kernel.mjs')
  const kernel = pack(KERNEL)
  const to = join(tempDir(), 'kernel')
  layOutKernel({ ...kernel, sha256: kernel.sha256.toUpperCase() }, to)
  const tree = tempDir()
  put(tree, { 'usr/lib/modules/6.12.1-debian/modules.dep': '' })
  assert.equal(takeModules(to, tree), RELEASE)
  assert.deepEqual(readdirSync(join(tree, 'usr/lib/modules')), [RELEASE])
  assert.equal(gunzipSync(packedKernel(to, RELEASE)).toString(), 'kernel')
  assert.deepEqual(Object.keys(ownOverlays(to, RELEASE)!), ['overlays/overlay_map.dtb', 'overlays/spi0-2cs.dtbo'])
  const { overlayLines } = await load('overlays.mjs')
  assert.equal(overlayLines(ownOverlays(to, RELEASE)!, ['spi0-2cs,cs0_pin=5']), 'dtoverlay=spi0-2cs,cs0_pin=5\n')
  assert.throws(() => overlayLines(ownOverlays(to, RELEASE)!, ['uart9']), /E_USAGE: no overlay uart9 for this board/)
})

test('another hash, none, another processor, and a package without a kernel are refused before anything is built', async () => {
  const { layOutKernel } = await load('kernel.mjs')
  const kernel = pack(KERNEL)
  const refused = (what: { deb: string; sha256?: string }, message: RegExp): void =>
    assert.throws(() => layOutKernel(what, join(tempDir(), 'k')), message)
  refused({ ...kernel, sha256: '00' }, new RegExp(`E_USAGE: --sha256: .* has ${kernel.sha256}, not 00`))
  refused({ deb: kernel.deb }, new RegExp(`has ${kernel.sha256}: give it where it is that of the maker`))
  refused({ deb: '/nowhere.deb', sha256: '00' }, /there is no file \/nowhere\.deb/)
  refused(pack(KERNEL, 'armhf'), /is for armhf, the boards have arm64/)
  refused(pack({ 'usr/share/doc/x': '' }), /has no kernel; it is the package linux-image-/)
  const { makeImage } = await load('index.mjs')
  const make = (board: string): void => {
    makeImage(root, { board, version: '1.0.0', builtAt: 0, kernel, out: tempDir(), say: () => {} })
  }
  assert.throws(() => make('qemu-virt'), /E_USAGE: --kernel is for Raspberry Pi, not for board qemu-virt/)
})

test('a kernel of Linux 7 has its program next to its modules, and other files are removed', async () => {
  const { takeModules, packedKernel, ownOverlays } = await load('kernel.mjs')
  const base = tempDir()
  const at = 'usr/lib/modules/7.3.4'
  const packed = gzipSync('seven')
  put(base, { [`${at}/vmlinuz`]: packed, [`${at}/config`]: 'x', [`${at}/modules.dep`]: '', [`${at}/dtb/a/b.dtb`]: 'x' })
  // a compressed one is not compressed again
  assert.ok(packedKernel(base, '7.3.4').equals(packed))
  assert.equal(ownOverlays(base, '7.3.4'), undefined)
  assert.equal(takeModules(base, base), '7.3.4')
  assert.deepEqual(readdirSync(join(base, at)), ['modules.dep'])
  assert.equal(existsSync(join(base, at, 'vmlinuz')), false)
})

test('modules are loaded after those they need; one with ? may be missing, another one not', async () => {
  const { modulesInOrder } = await load('initramfs.mjs')
  const dir = tempDir()
  put(dir, { 'modules.dep': KERNEL[`lib/modules/${RELEASE}/modules.dep`]!, 'modules.builtin': 'kernel/fs/inside.ko\n' })
  const order = ['kernel/fs/a.ko.xz', 'kernel/fs/b.ko.xz']
  assert.deepEqual(modulesInOrder(dir, ['b', 'inside', 'gone?', 'gone-too??', 'a?']), order)
  assert.throws(() => modulesInOrder(dir, ['b', 'gone']), /E_IMAGE: the kernel has no module gone/)
})

test('the kernel of each Raspberry Pi keeps outputs as they are while the service restarts', async () => {
  const { IMAGE_BOARDS } = (await import(join(root, 'src/build/image/boards.mjs'))) as {
    IMAGE_BOARDS: Record<string, { chip?: string; options?: string }>
  }
  const drivers: Record<string, string> = { bcm2837: 'bcm2835', bcm2711: 'bcm2835', bcm2712: 'rp1' }
  const boards = Object.entries(IMAGE_BOARDS).filter(([name]) => name !== 'qemu-virt')
  assert.deepEqual(
    boards.map(([name, { options }]) => [name, options]),
    boards.map(([name, { chip }]) => [name, `pinctrl_${drivers[chip!]}.persist_gpio_outputs=1`]),
  )
})
