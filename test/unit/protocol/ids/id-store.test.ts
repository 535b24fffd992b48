import assert from 'node:assert/strict'
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { type Files, realFiles } from '../../../../src/lib/files'
import { IdAllocator, type IdAllocatorOptions } from '../../../../src/protocol/ids/allocator'
import { changeFrom, isId, recordFrom } from '../../../../src/protocol/ids/change'
import { FileIdStore } from '../../../../src/protocol/ids/id-store'
import { LineFile } from '../../../../src/protocol/ids/linefile'
import { MemFiles, systemError } from '../../log/memfiles'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

interface Place {
  baseDir: string
  file: string
  journal: string
}

function place(): Place {
  const baseDir = mkdtempSync(join(tmpdir(), 'os-node-ids-'))
  folders.push(baseDir)
  const file = join(baseDir, 'data/id_allocation.json')
  return { baseDir, file, journal: `${file}.journal` }
}

const NOW = 1_710_000_000

function start({ baseDir, file }: Place, options: IdAllocatorOptions = {}, files: Files = realFiles): IdAllocator {
  return new IdAllocator({ baseDir, ...options }, { store: new FileIdStore(file, files), now: () => NOW })
}

test('nothing touches the disk before the first use', () => {
  const at = place()
  start(at)
  assert.equal(existsSync(join(at.baseDir, 'data')), false)
})

test('after a kill without stop every committed id is still stored', async () => {
  const at = place()
  const first = start(at)
  const a = first.allocateId({ device_id: 'a' })
  const pool = first.allocatePool(3)
  first.releaseId(pool[1]!, true)
  await first.commit()
  const second = start(at)
  assert.equal(second.allocateId({ device_id: 'a' }), a)
  assert.equal(second.allocateId({ device_id: 'b' }), pool[1])
  assert.equal(second.allocateId({ device_id: 'c' }), 5)
  assert.equal(existsSync(at.file), false, 'no checkpoint without stop')
})

test('stop writes the checkpoint of the protocol and empties the journal', async () => {
  const at = place()
  const first = start(at)
  first.allocateId({ device_id: 'a' })
  first.releaseId(first.allocateId({ device_id: 'b' }), true)
  await first.commit()
  assert.ok(readFileSync(at.journal).length > 0)
  first.stop()
  first.stop()
  const json = JSON.parse(readFileSync(at.file, 'utf8'))
  assert.deepEqual(Object.keys(json), ['allocated', 'released', 'next_candidate', 'lease_metrics'])
  assert.deepEqual([json.allocated['1'].device_key, json.released, json.next_candidate], ['device_id:a', [2], 3])
  assert.equal(json.lease_metrics.total_reclaimed, 1)
  assert.match(readFileSync(at.file, 'utf8'), /^{\n {2}"allocated"/)
  assert.equal(readFileSync(at.journal).length, 0)
  const second = start(at)
  assert.equal(second.stats().lease_metrics.total_reclaimed, 1)
  assert.equal(second.allocateId({ device_id: 'a' }), 1)
  assert.equal(second.allocateId({ device_id: 'c' }), 2)
})

test('a file of the reference is imported', () => {
  const at = place()
  start(at).stop()
  realFiles.mkdir(join(at.baseDir, 'data'))
  const record = { meta: { device_id: 'x' }, ts: 5, last_seen: 6, lease_expires_at: NOW + 9, device_key: 'device_id:x' }
  writeFileSync(at.file, JSON.stringify({ allocated: { '40': record }, released: [7, 3], next_candidate: 41 }))
  const ids = start(at)
  assert.equal(ids.allocateId({ device_id: 'x' }), 40)
  assert.deepEqual(ids.allocatePool(3), [3, 7, 41])
})

test('truncated at any byte, the journal never gives one id to two devices', async () => {
  const at = place()
  const first = start(at)
  const marks: { length: number; owner: Map<number, string> }[] = []
  const owner = new Map<number, string>()
  for (let k = 0; k < 12; k++) {
    if (k % 4 === 3) {
      const [id] = owner.keys()
      first.releaseId(id!, true)
      owner.delete(id!)
    } else {
      const device_id = `dev${k}`
      owner.set(first.allocateId({ device_id }), device_id)
    }
    await first.commit()
    marks.push({ length: readFileSync(at.journal).length, owner: new Map(owner) })
  }
  const whole = readFileSync(at.journal)
  for (let length = 0; length <= whole.length; length++) {
    writeFileSync(at.journal, whole.subarray(0, length))
    const store = new FileIdStore(at.file)
    const ids = new IdAllocator({}, { store, now: () => NOW })
    const told = marks.filter(mark => mark.length <= length).at(-1)?.owner ?? new Map<number, string>()
    for (const [id, device_id] of told) assert.equal(ids.allocateId({ device_id }), id, `cut at ${length}`)
    const stranger = ids.allocateId({ device_id: 'stranger' })
    assert.ok(!told.has(stranger), `cut at ${length}: ${stranger} given twice`)
    store.close()
  }
})

test('after a torn end the journal continues cleanly', async () => {
  const at = place()
  const first = start(at)
  first.allocateId({ device_id: 'a' })
  await first.commit()
  appendFileSync(at.journal, 'deadbeef {"set":2,"rec')
  const second = start(at)
  assert.equal(second.allocateId({ device_id: 'b' }), 2)
  await second.commit()
  const third = start(at)
  assert.equal(third.allocateId({ device_id: 'b' }), 2)
  assert.equal(third.allocateId({ device_id: 'a' }), 1)
  assert.equal(third.stats().next_candidate, 3, 'no damage was seen')
})

test('a flipped byte anywhere: the file is kept under another name, and no id of a lost line is assigned again', async () => {
  const at = place()
  const first = start(at)
  for (let k = 1; k <= 5; k++) first.allocateId({ device_id: `dev${k}` })
  first.releaseId(2, true)
  first.allocateId({ device_id: 'dev6' })
  await first.commit()
  const whole = readFileSync(at.journal)
  const owners = new Map([
    [1, 'dev1'],
    [2, 'dev6'],
    [3, 'dev3'],
    [4, 'dev4'],
    [5, 'dev5'],
  ])
  for (let byte = 0; byte < whole.length; byte += 7) {
    const bad = Buffer.from(whole)
    bad[byte]! ^= 0x10
    writeFileSync(at.journal, bad)
    const ids = start(at)
    const stranger = ids.allocateId({ device_id: 'stranger' })
    assert.ok(!owners.has(stranger), `byte ${byte}: ${stranger} given twice`)
    for (const [id, device_id] of owners) {
      const got = ids.allocateId({ device_id })
      assert.ok(got === id || !owners.has(got), `byte ${byte}: ${device_id} got ${got}`)
    }
    assert.ok(existsSync(`${at.journal}.damaged`), `byte ${byte}`)
    ids.stop()
    assert.equal(JSON.parse(readFileSync(at.file, 'utf8')).damaged, true)
    rmSync(at.file)
  }
})

test('an unreadable checkpoint assigns no ids', () => {
  const at = place()
  const first = start(at)
  first.allocateId({ device_id: 'a' })
  first.stop()
  truncateSync(at.file, 40)
  assert.throws(() => start(at).allocateId({ device_id: 'b' }), { code: 'STORAGE' })
  const before = readFileSync(at.file)
  start(at).stop()
  assert.deepEqual(readFileSync(at.file), before, 'it is left as it is')
})

/** Files that fail on demand; a failing write leaves half of its bytes behind. */
function failing(): { files: Files; broken: { write: boolean; sync: boolean } } {
  const broken = { write: false, sync: false }
  const files: Files = {
    ...realFiles,
    write: (fd, data, offset = 0, length = data.length - offset) => {
      if (!broken.write) return realFiles.write(fd, data, offset, length)
      realFiles.write(fd, data, offset, Math.floor(length / 2))
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    },
    sync: fd => (broken.sync ? Promise.reject(new Error('EIO')) : realFiles.sync(fd)),
  }
  return { files, broken }
}

test('on a full disk commit rejects, and recovers without help', async () => {
  const at = place()
  const { files, broken } = failing()
  const ids = start(at, {}, files)
  ids.allocateId({ device_id: 'a' })
  await ids.commit()
  broken.write = true
  assert.equal(ids.allocateId({ device_id: 'b' }), 2)
  await assert.rejects(ids.commit(), { code: 'ENOSPC' })
  await assert.rejects(ids.commit(), { code: 'ENOSPC' })
  const afterKill = start(at)
  assert.equal(afterKill.allocateId({ device_id: 'x' }), 2, 'killed now: id 2 was not sent')
  await afterKill.commit()
  // the allocator above has cut the torn line and written its own; restore what a kill would have left
  writeFileSync(at.journal, readFileSync(at.journal, 'utf8').split('\n').slice(0, 1).join('\n') + '\n')
  broken.write = false
  assert.equal(ids.allocateId({ device_id: 'b' }), 2)
  await ids.commit()
  assert.equal(start(at).allocateId({ device_id: 'b' }), 2)
})

test('a failed sync is retried', async () => {
  const at = place()
  const { files, broken } = failing()
  const ids = start(at, {}, files)
  ids.allocateId({ device_id: 'a' })
  broken.sync = true
  await assert.rejects(ids.commit(), /EIO/)
  broken.sync = false
  await ids.commit()
})

test('concurrent commits share their syncs, and each covers what was appended before it', async () => {
  const at = place()
  let syncs = 0
  let release: () => void = () => undefined
  const files: Files = {
    ...realFiles,
    sync: fd => {
      syncs++
      return syncs === 1
        ? new Promise<void>(resolve => {
            release = resolve
          })
        : realFiles.sync(fd)
    },
  }
  const ids = start(at, {}, files)
  ids.allocateId({ device_id: 'a' })
  const first = ids.commit()
  await turn()
  assert.equal(syncs, 1)
  ids.allocateId({ device_id: 'b' })
  const second = ids.commit()
  ids.allocateId({ device_id: 'c' })
  const third = ids.commit()
  let settled = false
  void second.then(() => {
    settled = true
  })
  await new Promise(resolve => setImmediate(resolve))
  assert.equal(settled, false)
  release()
  await Promise.all([first, second, third])
  assert.equal(syncs, 2)
})

test('packets of a device all the time cause almost no writes', async () => {
  const at = place()
  let now = NOW
  const ids = new IdAllocator({}, { store: new FileIdStore(at.file), now: () => now })
  ids.allocateId({ device_id: 'a' })
  await ids.commit()
  const before = readFileSync(at.journal).length
  for (let k = 0; k < 7200; k++) {
    now++
    ids.touch(1, '10.0.0.1:5')
    ids.allocateId({ device_id: 'a' })
  }
  await ids.commit()
  assert.ok(readFileSync(at.journal).length - before < 600)
})

test('a long journal is converted to a checkpoint automatically', async () => {
  const at = place()
  const ids = start(at)
  for (let k = 0; k < 20; k++) {
    ids.releasePool(ids.allocatePool(100, { note: 'x'.repeat(40) }), true)
    await ids.commit()
    await ids.settled()
  }
  assert.ok(existsSync(at.file))
  assert.ok(readFileSync(at.journal).length < 256 * 1024)
  assert.equal(start(at).stats().total_allocated, 0)
  assert.equal(ids.checkpointFailures, 0)
})

test('a device heard before a crash keeps its id even if its lease in the journal has ended meanwhile', async () => {
  const at = place()
  let now = NOW
  const make = (): IdAllocator =>
    new IdAllocator({ leasePolicy: { base_lease_seconds: 600 } }, { store: new FileIdStore(at.file), now: () => now })
  const ids = make()
  ids.allocateId({ device_id: 'a' })
  await ids.commit()
  now += 5000
  const again = make()
  assert.equal(again.allocateId({ device_id: 'b' }), 2)
  now += 300
  assert.equal(again.touch(1), true)
})

test('a start extends an active lease to at least an hour, and shortens none', () => {
  const at = place()
  const leaseAt = (now: number): unknown => {
    const ids = new IdAllocator(
      { leasePolicy: { base_lease_seconds: 86_400, adaptive_enabled: false } },
      { store: new FileIdStore(at.file), now: () => now },
    )
    if (now === NOW) ids.allocateId({ device_id: 'a' })
    const { allocated } = ids.dump() as { allocated: Record<string, Record<string, unknown>> }
    ids.stop()
    return allocated['1']!['lease_expires_at']
  }
  assert.equal(leaseAt(NOW), NOW + 86_400)
  assert.equal(leaseAt(NOW + 1000), NOW + 86_400)
  assert.equal(leaseAt(NOW + 86_300), NOW + 86_300 + 3600)
})

test('an id that a killed process wrote and had not synced is on flash before it is sent to its device again', async () => {
  const at = { baseDir: '/', file: '/data/ids.json', journal: '/data/ids.json.journal' }
  const files = new MemFiles()
  files.slow = () => new Promise(() => undefined)
  const first = start(at, {}, files)
  const id = first.allocateId({ device_id: 'a' })
  void first.commit() // killed in the sync
  await turn()
  files.slow = () => Promise.resolve()
  const second = start(at, {}, files)
  assert.equal(second.allocateId({ device_id: 'a' }), id)
  await second.commit() // the id is sent to the device now
  const third = start(at, {}, files.afterPowerCut())
  assert.equal(third.allocateId({ device_id: 'b' }) === id, false, 'assigned to two devices')
  assert.equal(third.allocateId({ device_id: 'a' }), id)
})

test('ids are whole numbers of 32 bits above 0, and a line with anything else is ignored', () => {
  for (const id of [0, -1, 1.5, 2 ** 32, '5', null, Number.NaN]) {
    assert.equal(isId(id), false, String(id))
    for (const line of [{ set: id, record: {} }, { free: id }, { touch: id, last_seen: 1, lease_expires_at: 2 }])
      assert.equal(changeFrom(line), null, JSON.stringify(line))
  }
  for (const id of [1, 2 ** 32 - 1]) assert.deepEqual(changeFrom({ free: id, back: 1 }), { free: id })
  assert.deepEqual(changeFrom({ free: 1, back: true }), { free: 1, back: true })
  assert.deepEqual(changeFrom({ grant: [1, 0, 'x'], until: 'x', fresh: 1 }), { grant: [1], until: 0, fresh: false })
  for (const wrong of [null, [], 5, { touch: 1, last_seen: 1 }, { touch: 1, lease_expires_at: 1 }, { set: 1 }])
    assert.equal(changeFrom(wrong), null, JSON.stringify(wrong))
  const record = recordFrom({ meta: [1], ts: 'x', state: 'gone', device_key: 5, addr: 7, last_seen: 1 / 0 })
  const empty = {
    meta: '{}',
    ts: 0,
    last_seen: 0,
    lease_expires_at: 0,
    device_key: '',
    state: 'active',
    offline_since: 0,
  }
  assert.deepEqual(record, empty)
})

test('the remainder of a torn write is cut before the next line; changes of one turn are one write of 64 KiB at most', async () => {
  const files = new MemFiles()
  files.mkdir('/ids')
  const journal = new LineFile('/ids/journal', files)
  journal.write(Buffer.from('{"free":1}\n'))
  files.tear = 0.5
  files.gate = operation => {
    if (operation === 'write') throw systemError('ENOSPC')
  }
  assert.throws(() => journal.write(Buffer.from('{"free":2}\n')), { code: 'ENOSPC' })
  files.gate = () => undefined
  journal.write(Buffer.from('{"free":3}\n'))
  assert.equal(files.read('/ids/journal').toString(), '{"free":1}\n{"free":3}\n')
  assert.equal(journal.length, 22)

  const written: number[] = []
  files.gate = (operation, _path, bytes) => void (operation === 'write' && written.push(bytes!))
  const store = new FileIdStore('/ids/file', files)
  for (let k = 1; k <= 4000; k++) store.append({ free: k })
  assert.equal(written.length, 1)
  assert.ok(written[0]! >= 1 << 16 && written[0]! < (1 << 16) + 40, `${written}`)
  await store.commit()
  assert.equal(files.read('/ids/file.journal').toString().split('\n').length, 4001)
  store.close()
})
