// The phase of an update that the test of power cuts aims at, by the writes of one update after another.
import assert from 'node:assert/strict'
import { closeSync, ftruncateSync, openSync, readFileSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sectorChooser } from '../../src/update/slot-chooser'
import { tempDir } from '../lib/gateway'
import { MIB, PLACES } from './board'
import { CHOOSER, UpdatePhase } from './update-phase'

test('writes to a slot, the request of a try, its countdown by U-Boot and the confirmation are the phases of an update', () => {
  const card = join(tempDir(), 'card')
  const fd = openSync(card, 'w+')
  ftruncateSync(fd, 128 * 1024)
  const chooser = sectorChooser(2, card)
  const update = new UpdatePhase()
  const sector = (): Buffer => readFileSync(card).subarray(CHOOSER, CHOOSER + 512)
  const after = (at: number, length = 4096): string => {
    update.wrote(at, length, sector)
    return update.phase
  }
  const block = CHOOSER
  assert.equal(update.phase, 'no update')
  for (const other of [0, PLACES.start, 113 * MIB, PLACES.data]) assert.equal(after(other), 'no update')
  for (const slot of [PLACES.rootA + 129 * MIB, PLACES.bootB]) assert.equal(after(slot), 'writing')
  assert.equal(after(PLACES.data), 'writing')
  chooser.tryOnce(3)
  assert.equal(after(block), 'writing')
  const left = Buffer.alloc(512)
  readSync(fd, left, 0, 512, CHOOSER)
  left[6] = 0
  writeSync(fd, left, 0, 512, CHOOSER)
  assert.equal(after(CHOOSER, 512), 'trial')
  assert.equal(after(PLACES.data), 'trial')
  chooser.activate(3, 2)
  assert.equal(after(block), 'no update')
  assert.equal(after(PLACES.rootA), 'writing')
  update.powerOn()
  assert.equal(after(PLACES.data), 'no update')
  closeSync(fd)
})
