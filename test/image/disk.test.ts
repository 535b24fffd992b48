// How large an image may be.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../lib/gateway'

test('an image that packs to more than 90 MB or unpacks to more than 512 MB is refused', async () => {
  const { checkSizes, layOut } = (await import(join(root, 'src/build/image/disk.mjs'))) as {
    checkSizes(sizes: { packed: number; unpacked: number }): void
    layOut(): { size: number }
  }
  checkSizes({ packed: 90_000_000, unpacked: layOut().size })
  const refused = /E_IMAGE: the packed image has 90000001 bytes, at most 90000000 are allowed: leave something out/
  assert.throws(() => checkSizes({ packed: 90_000_001, unpacked: 1 }), refused)
  assert.throws(
    () => checkSizes({ packed: 1, unpacked: 512_000_001 }),
    /E_IMAGE: the unpacked image has 512000001 bytes/,
  )
})
