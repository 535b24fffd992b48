// Updates on files in place of the partitions of a card: what is written, what is fetched, and what is refused.
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isNewer, readUpdate } from '../../../src/update/file'
import { installUpdate } from '../../../src/update/install'
import { openSlots, type Slots, versionOn } from '../../../src/update/slots'
import { beginTrial, confirm, giveUp, LastUpdates, settle } from '../../../src/update/trial'
import { openSource, type UpdateSource } from '../../../src/update/update-source'
import { at, bootOf, card, MIB, pack, pem, publicKey, rootOf, running } from '../../lib/update-card'

async function install(slots: Slots, path: string, keys = pem(publicKey)) {
  const opened = await openSource(path, Date.now)
  let end = 0
  const read: UpdateSource['read'] = (at, length) => {
    assert.ok(at >= end, 'a server without ranges would send the whole file again')
    end = at + length
    return opened.read(at, length)
  }
  const source = { ...opened, read }
  const steps = new Set<string>()
  try {
    const update = await readUpdate(source.read, keys)
    const installed = await installUpdate(update, source, slots, ({ step }) => steps.add(step))
    beginTrial(slots, new LastUpdates(at('data/last.json')), installed, 5)
    return { ...installed, steps: [...steps] }
  } finally {
    await source.close()
  }
}

const device = (name: string): Buffer => readFileSync(join(at('devices'), name))
const tried = (): number[] => [...readFileSync(at('disk')).subarray(64 * 1024 + 4, 64 * 1024 + 7)]

test('an update goes into the other slot, fetches only new chunks, and is tried once by the next start', async () => {
  const slots = card()
  const path = pack('a.update', '1.1.0')
  const done = await install(slots, path)
  assert.deepEqual(done.steps, ['compare', 'write', 'verify'])
  assert.ok(done.fetched_bytes < 0.1 * statSync(path).size, `${done.fetched_bytes} of ${statSync(path).size} fetched`)
  assert.ok(device('id-06').subarray(0, rootOf('new system').length).equals(rootOf('new system')))
  const { bytes, digit } = bootOf('1.1.0', 200)
  bytes[digit] = '6'.charCodeAt(0)
  assert.ok(device('id-03').subarray(0, bytes.length).equals(bytes))
  assert.deepEqual(versionOn(slots.other.boot), { version: '1.1.0', built_at: 200 })
  assert.deepEqual(slots.choice(), { active: 'A', trying: 'B' })
  assert.deepEqual(tried(), [2, 3, 1])
  await assert.rejects(install(slots, path), { code: 'E_UPDATE', message: 'a new version is on trial' })
})

test('a confirmed trial stays; after a failed or unconfirmed one the old slot is active again', () => {
  const slots = card()
  const updates = new LastUpdates(at('data/last.json'))
  const trial = { version: '1.1.0', from: '1.0.0', slot: 'B', outcome: 'trial', at: 1 } as const
  const begin = () => {
    updates.write(trial)
    slots.activate('A')
    slots.tryOnce('B')
    // the boot loader counts down
    const disk = readFileSync(at('disk'))
    disk[64 * 1024 + 6] = 0
    writeFileSync(at('disk'), disk)
  }
  begin()
  const b = running('B', '1.1.0')
  settle(b, updates, 5)
  assert.deepEqual(updates.read(), trial, 'it is still on trial')
  assert.equal(confirm(b, updates, 7), true)
  assert.deepEqual(updates.read(), { ...trial, outcome: 'confirmed', at: 7 })
  assert.deepEqual(b.choice(), { active: 'B' })
  assert.equal(confirm(b, updates, 8), false)
  assert.equal(giveUp(b, updates, 8), false)
  begin()
  assert.equal(giveUp(running('B', '1.1.0'), updates, 9), true)
  assert.match(updates.read()!.reason!, /did not become healthy/)
  assert.deepEqual(slots.choice(), { active: 'A' })
  begin()
  settle(running('A', '1.0.0'), updates, 10)
  assert.deepEqual(updates.read(), {
    ...trial,
    outcome: 'rolled back',
    reason: 'its system did not start, or the power was cut during the trial',
    at: 10,
    went_back: ['1.1.0 0'],
  })
})

test('a power cut before or after either write of a trial leaves a valid record', () => {
  const slots = card()
  const updates = new LastUpdates(at('data/last.json'))
  const cut = (): never => {
    throw new Error('power')
  }
  const installed = {
    version: '1.1.0',
    built_at: 200,
    from: '1.0.0',
    slot: 'B',
    bytes: 1,
    fetched_bytes: 1,
    copied_bytes: 0,
  } as const
  assert.throws(() => beginTrial({ ...slots, tryOnce: cut }, updates, installed, 1), /power/)
  settle(running('A', '1.0.0'), updates, 2)
  assert.equal(updates.read()!.outcome, 'rolled back')
  beginTrial(slots, updates, installed, 3)
  const b = running('B', '1.1.0')
  b.activate('B')
  settle(b, updates, 4)
  const { outcome, built_at, went_back } = updates.read()!
  assert.deepEqual([outcome, built_at, went_back?.[0]], ['confirmed', 200, '1.1.0 200'])
})

test('a refused update leaves the other slot unchanged', async () => {
  const slots = card('1.0.0')
  const other = generateKeyPairSync('ed25519')
  const good = pack('good.update', '1.1.0')
  const changed = (from: string, to: string, edit: (bytes: Buffer) => Buffer): string => {
    writeFileSync(at(to), edit(readFileSync(from)))
    return at(to)
  }
  const flip = (place: (bytes: Buffer) => number) => (bytes: Buffer) => {
    bytes[place(bytes)]! ^= 1
    return bytes
  }
  const cases: [string, RegExp][] = [
    [pack('strange.update', '1.1.0', {}, other.privateKey), /update was not signed with a key of this image/],
    [
      changed(
        good,
        'list.update',
        flip(() => 40),
      ),
      /update was not signed with a key/,
    ],
    [pack('board.update', '1.1.0', { board: 'rpi-4' }), /is for rpi-4, this board is bench/],
    [pack('older.update', '0.9.9'), /has version 0\.9\.9, this board runs 1\.0\.0/],
    [pack('same.update', '1.0.0', { built_at: 100 }), /has version 1\.0\.0, this board runs 1\.0\.0/],
    [changed(good, 'text.update', () => Buffer.from('<html>not found</html>')), /this is not an os-node update/],
    [changed(good, 'short.update', bytes => bytes.subarray(0, 2000)), /is truncated/],
  ]
  const before = device('id-03')
  for (const [path, message] of cases) await assert.rejects(install(slots, path), { code: 'E_UPDATE', message }, path)
  await assert.rejects(install(slots, good, ''), { code: 'E_UPDATE', message: 'this image has no key for updates' })
  await assert.rejects(install(card('1.0.0', { chooser: 'firmware' }), good), {
    code: 'E_UPDATE',
    message: 'the kernel module os_node_tryboot is not loaded',
  })
  await assert.rejects(openSource(at('nowhere.update'), Date.now), {
    code: 'E_UPDATE_SOURCE',
    message: /nowhere\.update/,
  })
  assert.ok(device('id-03').equals(before))
  assert.deepEqual(slots.choice(), { active: 'A' })
  // a second key: rotation
  await install(slots, pack('rotated.update', '1.1.0', {}, other.privateKey), pem(publicKey) + pem(other.publicKey))
})

test('an interrupted update leaves a slot that cannot be started, and resumes from there', async () => {
  const slots = card()
  writeFileSync(join(at('devices'), 'id-05'), Buffer.alloc(4 * MIB))
  const good = pack('whole.update', '1.1.0')
  const bytes = readFileSync(good)
  writeFileSync(at('cut.update'), bytes.subarray(0, bytes.length - 600_000))
  await assert.rejects(install(slots, at('cut.update')), { code: 'E_UPDATE', message: /truncated/ })
  assert.equal(versionOn(slots.other.boot), undefined)
  assert.deepEqual(slots.choice(), { active: 'A' })
  const { fetched_bytes } = await install(slots, good)
  assert.ok(fetched_bytes < 2_000_000, `${fetched_bytes} fetched the second time`)
  assert.deepEqual(slots.choice(), { active: 'A', trying: 'B' })
})

test('a truncated update is refused even if the card has all chunks that it lacks', async () => {
  const slots = card()
  const root = join(at('devices'), 'id-06')
  writeFileSync(root, rootOf('new system'))
  truncateSync(root, 4 * MIB)
  const bytes = readFileSync(pack('whole.update', '1.1.0'))
  writeFileSync(at('cut.update'), bytes.subarray(0, bytes.length - 600_000))
  await assert.rejects(install(slots, at('cut.update')), { code: 'E_UPDATE', message: /truncated/ })
  assert.equal(versionOn(slots.other.boot), undefined)
  assert.deepEqual(slots.choice(), { active: 'A' })
})

test('an update with a damaged chunk, or larger than the slot, is refused and not started', async () => {
  const slots = card()
  const bytes = readFileSync(pack('chunk.update', '1.1.0'))
  // the last chunk is new in this version
  for (let k = 12_000; k < bytes.length; k += 4096) bytes[k]! ^= 0x10
  writeFileSync(at('chunk.update'), bytes)
  await assert.rejects(install(slots, at('chunk.update')), { code: 'E_UPDATE', message: /is damaged at byte \d+/ })
  assert.equal(versionOn(slots.other.boot), undefined)
  truncateSync(join(at('devices'), 'id-06'), MIB)
  await assert.rejects(install(slots, pack('large.update', '1.1.0')), {
    code: 'E_UPDATE',
    message: /root of the update has \d+ bytes, the slot has room for 1048576/,
  })
  assert.deepEqual(slots.choice(), { active: 'A' })
})

test('versions are compared by their numbers, one with a suffix is older than the same without, then by build time', () => {
  const newer = (a: string, b: string, [left, right] = [1, 1]) =>
    isNewer({ version: a, built_at: left! }, { version: b, built_at: right! })
  assert.equal(newer('1.10.0', '1.9.9'), true)
  assert.equal(newer('1.9.9', '1.10.0'), false)
  assert.equal(newer('2.0', '1.9.9'), true)
  assert.equal(newer('1.0.0', '1.0'), false)
  assert.equal(newer('1.0.0', '1.0.0', [2, 1]), true)
  assert.equal(newer('1.0.0', '1.0.0'), false)
  // in this order; what is after + does not count
  const versions = [
    '0.9.9',
    '1.0.0-alpha',
    '1.0.0-beta.2',
    '1.0.0-rc.1+b7',
    '1.0.0-rc.10',
    '1.0.0',
    '1.0.1-rc.1',
    '1.0.1',
  ]
  for (const [k, version] of versions.entries())
    for (const [n, other] of versions.entries()) assert.equal(newer(version, other), k > n, `${version} ${other}`)
  assert.equal(newer('1.0.0+b2', '1.0.0+b10', [2, 1]), true)
})

test("a system without the image's kernel arguments has no slots", () => {
  writeFileSync(at('plain'), 'root=/dev/sda1 quiet\n')
  assert.throws(() => openSlots(at('plain')), { code: 'NO_SLOTS' })
  assert.throws(() => openSlots(at('no such file')), { code: 'NO_SLOTS' })
})
