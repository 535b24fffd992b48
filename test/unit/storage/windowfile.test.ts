// The file of a window detects every changed byte and every wrong length, and reports that it cannot be used.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isForeign } from '../../../src/storage/foreign'
import {
  BadWindow,
  encodeWindow,
  readDatabase,
  readSealed,
  type Summary,
  windowName,
} from '../../../src/storage/windowfile'
import { crc32c } from '../../../src/wire/crc'

const summary: Summary = {
  ...{ from: 3, to: 9, packets: 2, witness: { seq: 9, boot: 1, wall_ms: 1000 } },
  ...{ unsynced: [], corrected: 0, moved: false, statuses: [], sensors: [] },
}
const bloom = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8)
const rows = Buffer.from('rows of a window')
const bytes = encodeWindow(summary, bloom, rows)
const name = windowName(3, 9)

/** What each part of the file gives, or why it cannot be used. */
function said(file: Buffer, as = name, size = file.length): unknown[] {
  const read = (offset: number, length: number): Buffer => file.subarray(offset, offset + length)
  return [() => readSealed(as, size, read), () => Buffer.from(readDatabase(as, size, read)).toString()].map(part => {
    try {
      return part()
    } catch (error) {
      assert.ok(error instanceof BadWindow, String(error))
      assert.deepEqual([error.file, error.code], [as, 'STORAGE'])
      return error.message.slice(as.length + 2)
    }
  })
}
const whole = [{ summary, bloom }, `${rows}`]

test('a window is read as it was written', () => {
  assert.deepEqual(said(bytes), whole)
})

test('a changed byte is detected in its part of the file', () => {
  const head = 32 + bytes.readUInt32LE(8) + bloom.length
  for (let at = 0; at < bytes.length; at++) {
    const other = Buffer.from(bytes)
    other[at]! ^= 1
    const begins = 'it has no header of a window'
    const right =
      at < 32 ? [begins, begins] : at < head ? ['its summary is damaged', whole[1]] : [whole[0], 'its rows are damaged']
    assert.deepEqual(said(other), right, `byte ${at}`)
  }
})

test('a file with a wrong length, of another kind or with other records is refused', () => {
  const twice = (why: string): string[] => [why, why]
  for (const length of [0, 8, 31])
    assert.deepEqual(said(bytes.subarray(0, length)), twice('it has no header of a window'), `${length}`)
  for (const size of [32, bytes.length - 1, bytes.length + 1])
    assert.deepEqual(said(bytes, name, size), twice('its length differs from its header'), `${size}`)
  const kind = Buffer.from(bytes)
  kind.write('OSNWIN2')
  kind.writeUInt32LE(crc32c(kind, 0, 28), 28)
  assert.deepEqual(said(kind), twice('it has no header of a window'))
  for (const other of [windowName(2, 9), windowName(3, 10), 'x'])
    assert.deepEqual(said(bytes, other), ['its records differ from its name', whole[1]])
})

test('a window belongs to another log if its newest fact is not in the log as it should be', () => {
  const fact = { kind: 'fact', boot: 1, wallMs: 1000 }
  const asked: unknown[] = []
  const foreign = (record: object | null, firstSeq = 5, lastSeq = 20): boolean => {
    const reader = (...of: unknown[]) => {
      asked.push(of)
      return { next: () => record }
    }
    return isForeign(summary, { firstSeq, lastSeq, reader } as never)
  }
  assert.equal(foreign(fact), false)
  assert.deepEqual(asked, [[9, { upTo: 9 }]])
  for (const other of [{ kind: 'clock' }, { boot: 2 }, { wallMs: 1001 }])
    assert.equal(foreign({ ...fact, ...other }), true, JSON.stringify(other))
  // the log lost or dropped the record: the window is the only copy
  assert.equal(foreign(null), false)
  assert.equal(foreign({ ...fact, boot: 2 }, 9), true)
  assert.equal(foreign({ ...fact, boot: 2 }, 10), false)
  // the log ends before the window does
  assert.equal(foreign(fact, 5, 9), false)
  assert.equal(foreign(fact, 5, 8), true)
})
