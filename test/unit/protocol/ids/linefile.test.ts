// A file of lines: read with any chunk size, also if it became shorter meanwhile; damaged lines are undefined.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LineFile, linesOf } from '../../../../src/protocol/ids/linefile'
import { MemFiles, systemError } from '../../log/memfiles'

const CHUNK = 1 << 20
function file(bytes: Uint8Array): MemFiles {
  const files = new MemFiles()
  files.mkdir('/ids')
  const fd = files.open('/ids/lines', 'w')
  files.write(fd, bytes)
  files.close(fd)
  return files
}
const read = (files: MemFiles): unknown[] => [...new LineFile('/ids/lines', files).read()]

test('lines are read across the ends of the chunks, including the last byte', () => {
  for (const size of [CHUNK - 1, CHUNK, CHUNK + 1, CHUNK + 2, 2 * CHUNK + 1]) {
    // with what a line has besides its text: checksum, space, quotes and line feed
    const small = linesOf(['1', '2'])
    const bytes = Buffer.concat([small, linesOf([JSON.stringify('x'.repeat(size - small.length - 12))])])
    assert.equal(bytes.length, size)
    const values = read(file(bytes))
    assert.deepEqual([values.length, values[0], values[1]], [3, 1, 2], `${size} bytes`)
    assert.equal((values[2] as string).length, size - small.length - 12)
  }
})

test('a file that becomes shorter while it is read ends there', () => {
  const files = file(linesOf(['1', '2']))
  const size = files.size('/ids/lines')
  files.size = () => size + 5
  const readAt = files.readAt.bind(files)
  let reads = 0
  files.readAt = (path, at, length) => {
    assert.ok(++reads < 10, 'it reads on for ever')
    return readAt(path, at, length)
  }
  assert.deepEqual(read(files), [1, 2])
})

test('a missing file has no lines; a damaged line is undefined, a torn end is not a line', () => {
  assert.deepEqual([...new LineFile('/ids/none', new MemFiles()).read()], [])
  const bytes = Buffer.concat([linesOf(['1', '"two"', '3']), Buffer.from('00000000 4')])
  bytes[12]! ^= 1
  assert.deepEqual(read(file(bytes)), [1, undefined, 3])
  const lines = new LineFile('/ids/lines', file(bytes))
  assert.equal([...lines.read()].length, 3)
  assert.equal(lines.length, bytes.length - 10)
  assert.deepEqual(read(file(Buffer.from('short\n'))), [undefined])
})

test('lines that were read are synced once with their folder before anything counts as kept', async () => {
  const files = file(linesOf(['1']))
  const lines = new LineFile('/ids/lines', files)
  assert.deepEqual([...lines.read()], [1])
  const calls: string[] = []
  files.gate = operation => void (/sync/.test(operation) && calls.push(operation))
  await lines.sync()
  assert.deepEqual(calls, ['syncDir', 'sync'])
  await lines.sync()
  assert.deepEqual(calls, ['syncDir', 'sync', 'sync'])
  lines.close()
  await lines.sync()
  assert.equal(calls.length, 3, 'nothing is open')
  files.gate = operation => {
    if (operation === 'sync') throw systemError('EIO')
  }
  const again = new LineFile('/ids/lines', files)
  assert.deepEqual([...again.read()], [1])
  await assert.rejects(again.sync(), { code: 'EIO' })
  files.gate = () => undefined
  files.syncs = 0
  await again.sync()
  assert.equal(files.syncs, 1)
})

test('lines whose sync failed before a kill are on flash once the next process synced them', async () => {
  const files = new MemFiles()
  files.mkdir('/ids')
  const lines = new LineFile('/ids/lines', files)
  lines.write(linesOf(['1']))
  files.gate = operation => {
    if (operation === 'sync') throw systemError('EIO')
  }
  await assert.rejects(lines.sync(), { code: 'EIO' })
  files.gate = () => undefined
  const next = new LineFile('/ids/lines', files)
  assert.deepEqual([...next.read()], [1])
  await next.sync()
  assert.deepEqual(read(files.afterPowerCut()), [1])
})

test('nothing is written without a file and without content; an existing file becomes empty', () => {
  const none = new MemFiles()
  none.mkdir('/ids')
  const lines = new LineFile('/ids/lines', none)
  lines.dropUpTo(0)
  assert.equal(none.exists('/ids/lines'), false)
  const files = file(linesOf(['1', '2']))
  const held = new LineFile('/ids/lines', files)
  assert.deepEqual([...held.read()], [1, 2])
  held.dropUpTo(linesOf(['1']).length)
  assert.deepEqual([read(files), held.length], [[2], linesOf(['2']).length])
  held.dropUpTo(held.length)
  assert.deepEqual([files.size('/ids/lines'), held.length], [0, 0])
})
