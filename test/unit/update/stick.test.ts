// A USB stick with updates: which one is used, and that no names, links or devices on it are followed.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { copyFileSync, mkdirSync, renameSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkUpdate } from '../../../src/update/install'
import { mountStick, newestOn, openOn, updatesOn } from '../../../src/update/stick'
import { tempDir } from '../../lib/gateway'
import { card, pack, pem, publicKey } from '../../lib/update-card'

const nameOf = (board: string, version: string): string => `os-node-${board}-${version}.update`

test('the newest update for this board is used; the others are listed with the reason', async () => {
  const dir = tempDir()
  const slots = card('1.0.0')
  const put = (name: string, ...args: Parameters<typeof pack>): void => renameSync(pack(...args), join(dir, name))
  put(nameOf('bench', '1.1.0'), 'a', '1.1.0')
  put(nameOf('bench', '1.10.0'), 'a', '1.10.0')
  put(nameOf('bench', '0.9.0'), 'a', '0.9.0')
  put(nameOf('rpi-4', '2.0.0'), 'a', '2.0.0', { board: 'rpi-4' })
  put(nameOf('bench', '3.0.0'), 'a', '3.0.0', {}, generateKeyPairSync('ed25519').privateKey)
  writeFileSync(join(dir, nameOf('bench', '4.0.0')), 'a')
  const { name, refusals } = await newestOn(dir, pem(publicKey), update => checkUpdate(update, slots))
  assert.equal(name, nameOf('bench', '1.10.0'))
  assert.deepEqual(refusals, [
    'os-node-bench-0.9.0.update: the update has version 0.9.0, this board runs 1.0.0',
    'os-node-bench-3.0.0.update: the update was not signed with a key of this image',
    'os-node-bench-4.0.0.update: os-node-bench-4.0.0.update is truncated',
    'os-node-rpi-4-2.0.0.update: the update is for rpi-4, this board is bench',
  ])
})

test('links, folders, pipes and unusual names are not updates', async () => {
  const dir = tempDir()
  const good = pack('good', '1.1.0')
  symlinkSync(good, join(dir, nameOf('bench', '1.1.0')))
  mkdirSync(join(dir, nameOf('bench', '1.2.0')))
  execFileSync('mkfifo', [join(dir, nameOf('bench', '1.3.0'))])
  for (const name of ['os-node-\n.update', `os-node-${'a'.repeat(120)}.update`, 'my-os-node-1.update', 'os-node-1.txt'])
    copyFileSync(good, join(dir, name))
  assert.equal(updatesOn(dir).length, 3)
  const { name, refusals } = await newestOn(dir, pem(publicKey), () => {})
  assert.equal(name, undefined)
  assert.deepEqual(
    refusals.map(text => text.replace(/^.*: /, '').replace(/^\S+ /, '')),
    ['is not a regular file', 'is not a regular file', 'is not a regular file'],
  )
  await assert.rejects(openOn(dir, 'os-node-nowhere.update'), {
    code: 'E_UPDATE_SOURCE',
    message: /is not a regular file/,
  })
})

test('in an endless folder a limited number of names is read, and of updates opened', () => {
  const many = tempDir()
  for (let k = 0; k < 40; k++) writeFileSync(join(many, nameOf('bench', `1.${k}`)), '')
  assert.equal(updatesOn(many).length, 16)
  const full = tempDir()
  for (let k = 0; k < 2100; k++) writeFileSync(join(full, `photo-${k}.jpg`), '')
  assert.deepEqual(updatesOn(full), [])
})

test('a stick is mounted read-only, as one of three file systems, and never by a name that is a path', () => {
  const asked: string[][] = []
  const refuse =
    (good: string) =>
    (...args: string[]): void => {
      asked.push(args)
      if (args[0] !== good) throw new Error('wrong fs type')
    }
  mountStick('sda1', '/m', refuse('ext4'))
  assert.deepEqual(
    asked.map(([kind]) => kind),
    ['vfat', 'exfat', 'ext4'],
  )
  for (const [, options, device] of asked) {
    assert.match(options!, /^ro,nosuid,nodev,noexec,nosymfollow/)
    assert.equal(device, '/dev/sda1')
  }
  assert.match(asked[2]![1]!, /noload,errors=continue/)
  const wrong = { code: 'E_UPDATE_SOURCE', message: 'the stick cannot be read' }
  assert.throws(() => mountStick('sda1', '/m', refuse('none')), wrong)
  for (const name of ['', '../sda', 'sda 1', 'SDA1'])
    assert.throws(() => mountStick(name, '/m', () => {}), {
      code: 'E_UPDATE_SOURCE',
      message: 'this is not a partition',
    })
})

test('a file that becomes shorter while it is read is truncated; an unreadable one is reported', async () => {
  const dir = tempDir()
  const name = nameOf('bench', '1.1.0')
  copyFileSync(pack('short', '1.1.0'), join(dir, name))
  const source = await openOn(dir, name)
  assert.equal((await source.read(0, 7)).toString(), 'OSNUPD1')
  truncateSync(join(dir, name), 5)
  await assert.rejects(source.read(0, 7), { code: 'E_UPDATE', message: `${name} is truncated` })
  await source.close()
  await assert.rejects(source.read(0, 7), { code: 'E_UPDATE_SOURCE', message: /cannot be read/ })
})
