// The first program of the board, in parts: how it finds the partitions of the disk. The emulated boards run it whole.
// Needs: linux rigtools
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { runOnBusybox } from '../lib/busybox'
import { root, tempDir } from '../lib/gateway'

const INIT = readFileSync(join(root, 'src/build/image/init'), 'utf8')

test('a partition is found by its number: the boot parts of an eMMC are none, and 1 is not 11', () => {
  const dir = tempDir()
  const disk = join(dir, 'mmcblk0')
  for (const part of ['mmcblk0boot0', 'mmcblk0boot1', 'mmcblk0p11', 'mmcblk0p1', 'mmcblk0p7', 'queue'])
    mkdirSync(join(disk, part), { recursive: true })
  for (const number of ['1', '7', '11']) writeFileSync(join(disk, `mmcblk0p${number}/partition`), `${number}\n`)
  const script = join(dir, 'find')
  const [find] = /^find_partition\(\) \{\n(?:.*\n)*?\}\n/m.exec(INIT)!
  writeFileSync(script, `${find}find_partition "$1" "$2" && echo "$part" >"$3"; true\n`)
  const found = join(dir, 'found')
  for (const number of ['1', '7', '11']) {
    runOnBusybox(script, disk, number, found)
    assert.equal(readFileSync(found, 'utf8'), `${disk}/mmcblk0p${number}\n`)
  }
  writeFileSync(found, '')
  runOnBusybox(script, disk, '5', found)
  assert.equal(readFileSync(found, 'utf8'), '')
})
