// Radio firmware that the caller of `npm run image` supplies.
// Needs: image
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root, tempDir } from '../lib/gateway'

interface Modules {
  addFirmware(from: string, tree: string): string[]
  hasFirmware(tree: string, name: string): boolean
  IMAGE_BOARDS: Record<string, { radio?: { firmware: string } }>
}
const load = async (name: string): Promise<Modules> => (await import(join(root, 'src/build/image', name))) as Modules

test('files are copied to where the driver looks for them, the target of a link is copied, and a board that needs some has it then', async () => {
  const { addFirmware, hasFirmware } = await load('firmware.mjs')
  const { IMAGE_BOARDS } = await load('boards.mjs')
  const lacks = IMAGE_BOARDS['rpi-zero-2-w']!.radio!.firmware
  const from = tempDir()
  mkdirSync(join(from, 'cypress'))
  writeFileSync(join(from, 'cypress/cyfmac43430b0-sdio.bin'), 'radio')
  writeFileSync(join(from, 'brcmfmac43430b0-sdio.txt'), 'calibration')
  symlinkSync('cypress/cyfmac43430b0-sdio.bin', join(from, 'brcmfmac43430b0-sdio.bin'))
  const tree = tempDir()
  assert.ok(!hasFirmware(tree, lacks))
  assert.deepEqual(addFirmware(from, tree), [
    'brcm/brcmfmac43430b0-sdio.bin',
    'brcm/brcmfmac43430b0-sdio.txt',
    'cypress/cyfmac43430b0-sdio.bin',
  ])
  assert.ok(hasFirmware(tree, lacks))
  assert.equal(readFileSync(join(tree, 'usr/lib/firmware', lacks), 'utf8'), 'radio')
})

test('a missing folder, an empty one and a broken link are refused by name', async () => {
  const { addFirmware } = await load('firmware.mjs')
  const from = tempDir()
  assert.throws(() => addFirmware(join(from, 'none'), tempDir()), /E_USAGE: --firmware: there is no folder .*none/)
  assert.throws(() => addFirmware(from, tempDir()), /has no file/)
  symlinkSync('/etc/alternatives/cyfmac43455-sdio.bin', join(from, 'a.bin'))
  assert.throws(() => addFirmware(from, tempDir()), /a\.bin is a link to nowhere: copy the file that it means/)
})
