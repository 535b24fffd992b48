// The bytes of an exported file, compared with sqlitefile-trace.txt: records of every kind of value, trees with rows and keys
// of every length, uuids sorted in parts, blocks that are written.
import { after, test } from 'node:test'
import { OutFile } from '../../../src/storage/output-file'
import { BTree, pageAfter, SqliteFile } from '../../../src/storage/sqlitefile'
import { encodeRecord, varint } from '../../../src/storage/sqliterecord'
import { UuidKeys } from '../../../src/storage/uuidkeys'
import { dice, digest, outcome, Trace } from '../../lib/trace'
import { MemFiles, systemError } from '../log/memfiles'

const trace = new Trace('unit/storage/sqlitefile-trace.txt')
after(() => trace.compare())

test('records and their numbers have the bytes of sqlitefile-trace.txt', () => {
  const bounds = [8, 16, 24, 32, 48].flatMap(bits => [2 ** (bits - 1), -(2 ** (bits - 1))])
  const numbers = [0, 1, 2, -1, -0, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53 - 1, 2 ** 53, 1e300]
  for (const value of [
    ...numbers,
    ...bounds.flatMap(n => [n - 1, n, n + 1]),
    null,
    '',
    'é',
    'x'.repeat(57),
    'x'.repeat(58),
  ])
    trace.say(
      `${value}`.slice(0, 20),
      outcome(() => encodeRecord([value])),
    )
  for (const count of [0, 126, 127, 128])
    trace.say(`${count} columns`, digest(0, encodeRecord(new Array(count).fill(null))))
  for (const n of [0, 127, 128, 16_383, 16_384, 2 ** 21 - 1, 2 ** 21, 2 ** 31, 2 ** 32, 2 ** 35])
    trace.say(
      `${n}`,
      outcome(() => varint(n)),
    )
  for (const n of [1, 2, 262_143, 262_144, 262_145, 1_048_575]) trace.say(`after ${n}`, pageAfter(n))
})

test('trees of rows and keys of every length have the bytes of sqlitefile-trace.txt', () => {
  for (let length = 1; length <= 130; length++) {
    const files = new MemFiles()
    const file = new SqliteFile(new OutFile(files, '/x'))
    const [table, index] = [new BTree(file, 'table'), new BTree(file, 'index')]
    for (let k = 1; k <= 900; k++) {
      const text = `${k}`.padStart(length, '0').slice(-length)
      table.addRow(k * 9, encodeRecord([text]))
      index.addKey(encodeRecord([text, k]))
    }
    const roots = [table.finish(), index.finish()]
    file.finish([{ type: 'table', name: 't', table: 't', root: roots[0]!, sql: 'CREATE TABLE t (a)' }])
    trace.say(`${length} letters`, [roots, file.bytes, digest(0, files.read('/x'))])
  }
  // four entries fill an inner page to its last byte
  for (const length of [1012, 1013, 1014]) {
    const files = new MemFiles()
    const file = new SqliteFile(new OutFile(files, '/x'))
    const index = new BTree(file, 'index')
    for (let k = 100; k < 200; k++) index.addKey(Buffer.from(`${k}`.padEnd(length)))
    trace.say(`keys of ${length} bytes`, [index.finish(), file.upcoming])
  }
  for (let length = 3900; length < 13_000; length += length < 4200 || (length > 8050 && length < 8300) ? 3 : 211) {
    const files = new MemFiles()
    const file = new SqliteFile(new OutFile(files, '/x'))
    const table = new BTree(file, 'table')
    for (let k = 1; k <= 5; k++) table.addRow(k, encodeRecord([`${k}`.padEnd(length + k, 'y')]))
    trace.say(`${length} letters`, [table.finish(), file.upcoming])
  }
})

test('uuids are sorted in parts that fit, each by one pass over the file', () => {
  const { below } = dice(4)
  const uuids = Array.from({ length: 700 }, () => Buffer.from(Array.from({ length: 16 }, () => below(256))))
  for (const part of [22, 22 * 2, 22 * 60, 22 * 699, 22 * 700, 22 * 9000]) {
    const files = new MemFiles()
    const keys = new UuidKeys(files, '/keys', part)
    for (const [row, uuid] of uuids.entries()) keys.add(uuid, row)
    let reads = 0
    files.gate = operation => {
      if (operation === 'read') reads++
    }
    let seen = 0
    for (const [uuid, row] of keys.sorted()) seen = digest(seen, uuid, row)
    files.gate = () => undefined
    trace.say(`parts of ${part}`, [seen, reads, files.size('/keys')])
    keys.close()
    trace.say('left', files.list('/'))
  }
  // as many as fit 8 MiB; and blocks of 4096
  const most8 = Math.floor((8 * 1024 * 1024) / 22)
  for (const count of [most8 - 1, most8, 4095, 4096]) {
    const files = new MemFiles()
    const keys = new UuidKeys(files, '/keys')
    for (let row = 0; row < count; row++) keys.add(Buffer.alloc(16), row)
    keys.add(Buffer.alloc(16, 1), count)
    let reads = 0
    files.gate = operation => {
      if (operation === 'read') reads++
    }
    let last = 0
    for (const [, row] of keys.sorted()) last = row
    trace.say(`${count} and one`, [last, reads])
  }
  const none = new UuidKeys(new MemFiles(), '/keys')
  trace.say('none', [...none.sorted()])
  const most = new UuidKeys(new MemFiles(), '/keys')
  const entry = Buffer.alloc(16, 255)
  most.add(entry, 2 ** 48 - 1)
  most.add(entry, 0)
  trace.say(
    'the greatest',
    [...most.sorted()].map(([uuid, row]) => [uuid.toString('hex'), row]),
  )
})

test('a file is written in blocks, and errors of the system are reported', () => {
  const files = new MemFiles()
  const writes: number[] = []
  const seen: string[] = []
  files.gate = (operation, _path, bytes) => {
    if (operation === 'write') writes.push(bytes ?? -1)
    else seen.push(operation)
  }
  const out = new OutFile(files, '/x')
  for (const bytes of [1000, 256 * 1024 - 1000, 1, 256 * 1024 - 1, 2, 256 * 1024]) {
    out.write(Buffer.alloc(bytes, 7))
    trace.say(`${bytes} bytes`, writes.splice(0))
  }
  out.finish(Buffer.from('head'))
  out.close()
  trace.say('finished', [writes, seen, files.size('/x'), digest(0, files.read('/x'))])
  for (const [operation, code] of [
    ['open', 'EACCES'],
    ['write', 'ENOSPC'],
    ['write', 'EDQUOT'],
    ['write', 'EIO'],
    ['sync', 'EIO'],
    ['close', 'EIO'],
  ] as const) {
    const broken = new MemFiles()
    broken.gate = which => {
      if (which === operation) throw systemError(code)
    }
    const error = outcome(() => {
      const file = new OutFile(broken, '/x')
      file.write(Buffer.alloc(9))
      file.finish(Buffer.alloc(4))
    })
    trace.say(`${operation} ${code}`, error)
  }
})
