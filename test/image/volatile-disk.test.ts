// The disk of the power-cut tests: what it must keep, what it must be able to lose, and its protocol with qemu.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempDir } from '../lib/gateway'
import { serveDisk } from '../lib/nbd'
import { prng } from '../lib/random'
import { type Cut, SECTOR, VolatileDisk } from '../lib/volatile-disk'

const SIZE = 1 << 20
const SEEDS = Array.from({ length: 60 }, (_, k) => k + 1)

function fresh(): { disk: VolatileDisk; path: string; medium: (at: number, length: number) => Buffer } {
  const path = join(tempDir(), 'disk')
  writeFileSync(path, Buffer.alloc(SIZE, 0x11))
  return {
    disk: new VolatileDisk(path),
    path,
    medium: (at, length) => readFileSync(path).subarray(at, at + length),
  }
}

const block = (value: number, length = 4096): Buffer => Buffer.alloc(length, value)
const isAll = (bytes: Buffer, value: number): boolean => bytes.every(byte => byte === value)

test('a flushed write and one with FUA survive every cut; a write reads back before it is on the medium', () => {
  for (const seed of SEEDS) {
    const { disk, medium } = fresh()
    disk.write(0, block(1, 16384))
    assert.ok(isAll(disk.read(0, 16384), 1))
    assert.ok(isAll(medium(0, 16384), 0x11), 'the medium has nothing of it yet')
    disk.flush()
    disk.write(8192, block(2))
    disk.write(8192, block(3), true)
    disk.write(65536, block(4), true)
    disk.cut(prng(seed))
    assert.ok(isAll(disk.read(0, 8192), 1))
    // an older cached write does not replace a newer one that bypassed the cache
    assert.ok(isAll(disk.read(8192, 4096), 3))
    assert.ok(isAll(disk.read(65536, 4096), 4))
    disk.close()
  }
})

test('of unflushed writes some survive, some are dropped, some are torn between sectors', () => {
  const sum: Cut = { kept: 0, dropped: 0, torn: 0 }
  const seen = new Set<string>()
  for (const seed of SEEDS) {
    const { disk } = fresh()
    for (let k = 0; k < 8; k++) disk.write(k * 8192, block(2, 8192))
    const cut = disk.cut(prng(seed))
    for (const key of ['kept', 'dropped', 'torn'] as const) sum[key] += cut[key]
    for (let at = 0; at < 65536; at += 4096) {
      const sectors = Array.from({ length: 8 }, (_, k) => disk.read(at + k * SECTOR, SECTOR))
      for (const sector of sectors) assert.ok(isAll(sector, sector[0]!), 'a sector is old or new')
      const values = new Set(sectors.map(sector => sector[0]))
      seen.add(values.size > 1 ? 'torn' : values.has(2) ? 'new' : 'old')
    }
    disk.close()
  }
  assert.deepEqual([...seen].sort(), ['new', 'old', 'torn'])
  assert.ok(sum.kept > 0 && sum.dropped > 0 && sum.torn > 0, JSON.stringify(sum))
  assert.equal(sum.kept + sum.dropped + sum.torn, SEEDS.length * 16)
})

test('what would be after a cut is what is after it, and the disk does not change', () => {
  for (const seed of SEEDS) {
    const { disk, path } = fresh()
    for (let k = 0; k < 8; k++) disk.write(k * 6144, block(k, 8192))
    if (seed % 2 === 0) disk.write(8192, block(9), true)
    const before = readFileSync(path)
    const [at, length] = [5 * SECTOR, 60 * SECTOR]
    const would = disk.afterCut(prng(seed), at, length)
    assert.deepEqual(readFileSync(path), before)
    disk.cut(prng(seed))
    assert.deepEqual(disk.read(at, length), would, `seed ${seed}`)
    disk.close()
  }
})

test('of several writes to a block the newest wins if it survives, an older one if only that does', () => {
  const ends = new Set<number>()
  for (const seed of SEEDS) {
    const { disk } = fresh()
    for (const value of [2, 3]) disk.write(0, block(value, SECTOR))
    assert.ok(isAll(disk.read(0, SECTOR), 3))
    disk.cut(prng(seed))
    ends.add(disk.read(0, SECTOR)[0]!)
    disk.close()
  }
  assert.deepEqual(
    [...ends].sort((a, b) => a - b),
    [2, 3, 0x11],
  )
})

test('the same seed loses the same writes; a full cache writes its oldest entries to the medium', () => {
  const after = [1, 1, 2].map(seed => {
    const { disk } = fresh()
    for (let k = 0; k < 32; k++) disk.write(k * 4096, block(k + 20))
    disk.cut(prng(seed))
    const bytes = disk.read(0, SIZE)
    disk.close()
    return bytes
  })
  assert.ok(after[0]!.equals(after[1]!))
  assert.ok(!after[0]!.equals(after[2]!))
  const { disk, medium } = fresh()
  for (let k = 0; k < 65; k++) disk.write(0, block(k, SIZE))
  assert.ok(isAll(medium(0, SIZE), 0))
  assert.ok(isAll(disk.read(0, SIZE), 64))
  disk.close()
})

test('over the protocol of qemu sizes, reads, writes, FLUSH and FUA reach the disk; an unknown command gets an error', async t => {
  const { disk, medium } = fresh()
  const path = join(tempDir(), 'socket')
  const server = await serveDisk(path, disk)
  const socket = connect(path)
  t.after(() => {
    socket.destroy()
    server.close()
    disk.close()
  })
  let got = Buffer.alloc(0)
  let more = (): void => {}
  socket.on('data', part => {
    got = Buffer.concat([got, part])
    more()
  })
  const take = async (length: number): Promise<Buffer> => {
    while (got.length < length) await new Promise<void>(resolve => (more = resolve))
    const bytes = got.subarray(0, length)
    got = got.subarray(length)
    return bytes
  }
  const words = (...values: number[]): Buffer =>
    Buffer.concat(values.map(value => Buffer.from([0, 0, value >> 8, value])))
  const option = (number: number): void => {
    socket.write(Buffer.concat([Buffer.from('IHAVEOPT'), words(number, 0)]))
  }
  const request = (flags: number, command: number, at: number, data: Buffer | number): Promise<Buffer> => {
    const head = Buffer.from('25609513'.padEnd(56, '0'), 'hex')
    head.writeUInt16BE(flags, 4)
    head.writeUInt16BE(command, 6)
    head.write('the mark', 8)
    head.writeUInt32BE(at, 20)
    head.writeUInt32BE(typeof data === 'number' ? data : data.length, 24)
    socket.write(typeof data === 'number' ? head : Buffer.concat([head, data]))
    return take(16)
  }
  const done = '67446698' + '00000000' + Buffer.from('the mark').toString('hex')

  assert.equal((await take(18)).toString('latin1', 0, 16), 'NBDMAGICIHAVEOPT')
  socket.write(words(3))
  option(8)
  assert.equal((await take(20)).readUInt32BE(12), 0x80000001, 'structured replies: no')
  option(7)
  const about = await take(32)
  assert.equal(about.readUInt32BE(12), 3)
  assert.equal(Number(about.readBigUInt64BE(22)), SIZE)
  assert.equal(about.readUInt16BE(30), 1 | 4 | 8)
  assert.equal((await take(20)).readUInt32BE(12), 1)

  assert.equal((await request(0, 1, 4096, block(7))).toString('hex'), done)
  assert.ok(isAll(medium(4096, 4096), 0x11))
  assert.equal((await request(0, 0, 4096, 4096)).toString('hex'), done)
  assert.ok(isAll(await take(4096), 7))
  assert.equal((await request(0, 3, 0, 0)).toString('hex'), done)
  assert.ok(isAll(medium(4096, 4096), 7))
  assert.equal((await request(1, 1, 8192, block(8))).toString('hex'), done)
  assert.ok(isAll(medium(8192, 4096), 8))
  assert.equal((await request(0, 4, 0, 4096)).readUInt32BE(4), 22, 'a discard')
  assert.equal((await request(0, 1, SIZE, block(9))).readUInt32BE(4), 5, 'behind the end')
  assert.equal(disk.flushes, 1)
})
