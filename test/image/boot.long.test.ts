// The image for the emulated board, booted by its own kernel and early system: a first boot tells address, token and fingerprint
// on the console and on the start partition, and serves the page; after a power cut the next boot has the same identity and data; a
// factory reset leaves nothing of them; a changed system is refused.
// Needs: x64 boards debs image
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { copyFileSync, mkdtempSync, openSync, readFileSync, truncateSync, writeFileSync, writeSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { freePort, removeDir, root, sleep, until } from '../lib/gateway'

const BUILT_AT = Date.parse('2026-01-02T03:04:05Z')
const MIB = 2 ** 20
const place = mkdtempSync(join(tmpdir(), 'os-node-image-'))
const card = join(place, 'card.img')
const running = new Set<ChildProcess>()
let image = ''
let port = 0
after(() => {
  for (const child of running) child.kill('SIGKILL')
  removeDir(place)
})

interface Maker {
  makeImage(root: string, options: object): string
}
const make = async (): Promise<string> => {
  const { makeImage } = (await import(join(root, 'src/build/image/index.mjs'))) as Maker
  return makeImage(root, {
    board: 'qemu-virt',
    version: '1.2.3',
    builtAt: BUILT_AT,
    quick: true,
    out: place,
    say: () => {},
  })
}

const START = `${card}@@${MIB}`
const BOOT = `${card}@@${17 * MIB}`
const fromCard = (partition: string, name: string): string => {
  const to = join(place, name)
  execFileSync('mcopy', ['-o', '-i', partition, `::${name}`, to])
  return to
}

/** A card as a person has it: larger than the image, with an os-node.conf of theirs. */
function freshCard(): void {
  copyFileSync(image, card)
  truncateSync(card, 1024 * MIB)
  writeFileSync(join(place, 'os-node.conf'), 'hostname=greenhouse-1\r\ncolour=blue\r\n')
  execFileSync('mcopy', ['-o', '-i', START, join(place, 'os-node.conf'), '::os-node.conf'])
}

/** Gives the board power: what its serial console says so far, and how to take the power away. */
function power(): { said: () => string; cut: () => Promise<void> } {
  const [kernel, early] = ['kernel8.img', 'initramfs'].map(name => fromCard(BOOT, name))
  const line = readFileSync(fromCard(BOOT, 'cmdline.txt'), 'utf8').trim()
  const machine = ['-M', 'virt', '-cpu', 'cortex-a72', '-smp', '2', '-m', '512', '-nographic', '-no-reboot']
  const disk = [
    '-drive',
    `file=${card},format=raw,if=none,id=card,discard=unmap`,
    '-device',
    'virtio-blk-pci,drive=card',
  ]
  const network = [
    '-netdev',
    `user,id=n,hostfwd=tcp:127.0.0.1:${port}-:443`,
    '-device',
    'virtio-net-pci,netdev=n,romfile=',
  ]
  const child = spawn(
    'qemu-system-aarch64',
    [...machine, '-kernel', kernel!, '-initrd', early!, '-append', line, ...disk, ...network, '-device', 'i6300esb'],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  )
  running.add(child)
  child.once('close', () => running.delete(child))
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream!.on('data', chunk => (text += chunk))
  return {
    said: () => text.replaceAll('\r', ''),
    cut: () =>
      new Promise(resolve => {
        if (!running.delete(child)) return resolve()
        child.once('close', () => resolve())
        child.kill('SIGKILL')
      }),
  }
}

interface Answer {
  status: number
  text: string
  fingerprint: string
}
const ask = (path: string, token = ''): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const headers = { 'x-admin-token': token, host: 'greenhouse-1.local' }
    const asked = request(
      { host: '127.0.0.1', port, path, headers, rejectUnauthorized: false, timeout: 20_000 },
      res => {
        const { fingerprint256: fingerprint } = (res.socket as TLSSocket).getPeerCertificate()
        let text = ''
        res
          .on('data', chunk => (text += chunk))
          .on('end', () => resolve({ status: res.statusCode!, text, fingerprint }))
      },
    )
    asked.once('error', reject).once('timeout', () => asked.destroy(new Error('no answer in 20 s')))
    asked.end()
  })

/** Signs in as the page does. */
const signIn = (token: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const headers = { host: 'greenhouse-1.local', 'content-type': 'application/json' }
    const asked = request(
      { host: '127.0.0.1', port, path: '/api/login', method: 'POST', headers, rejectUnauthorized: false },
      res => {
        res.resume().on('end', () => resolve(res.statusCode!))
      },
    )
    asked.once('error', reject)
    asked.end(JSON.stringify({ token }))
  })

const tokenOn = (board: { said: () => string }): Promise<string> =>
  until(
    'the token on the console',
    () => (FINGERPRINT.test(board.said()) ? /Your token:\s+([\w-]{43})\n/.exec(board.said())![1]! : null),
    BOOT_MS,
  )

const health = () =>
  ask('/health').then(
    ({ status }) => status === 200,
    () => false,
  )
const BOOT_MS = 400_000
const FINGERPRINT = /^(?:[0-9A-F]{2}:){31}[0-9A-F]{2}$/im
const LOGIN_FILE = 'os-node-login.txt'
let token = ''
let deviceId = ''
let kept = ''
const dataPartition = (): Buffer => readFileSync(card).subarray(372 * MIB)
const loginFile = (): string | null => {
  try {
    return readFileSync(fromCard(START, LOGIN_FILE), 'utf8')
  } catch {
    return null
  }
}
const deviceIdOf = (text: string) => /"device_id":\s*"([^"]+)"/.exec(text)![1]!

before(async () => {
  image = await make()
  port = await freePort()
  freshCard()
})

test('a first boot shows address, token and fingerprint, names a bad line of os-node.conf, and serves the page', async t => {
  const board = power()
  t.after(board.cut)
  token = await tokenOn(board)
  const text = board.said()
  assert.match(text, new RegExp(`open https://10\\.0\\.2\\.15/#/\\?token=${token}`))
  assert.match(text, /The page is also at https:\/\/greenhouse-1\.local\//)
  await until('the complaint', () => board.said().includes('os-node.conf line 2: no setting colour'))
  const { status: denied } = await ask('/api/dashboard')
  assert.equal(denied, 401)
  const answer = await ask('/api/dashboard', token)
  assert.equal(answer.status, 200, answer.text)
  assert.match(text.toUpperCase(), new RegExp(answer.fingerprint))
  deviceId = deviceIdOf(answer.text)
  assert.equal((await ask('/')).status, 200)
  const login = await until('the login file', loginFile)
  assert.match(login, new RegExp(token))
  assert.equal(await signIn(token), 200)
  await until('the login file to go', () => loginFile() === null)
  kept = await until('a reading', async () => {
    const { text: packets } = await ask('/api/data/packets?limit=1', token)
    return /"packet_uuid":\s*"([^"]+)"/.exec(packets)?.[1]
  })
  // what was written is committed within a second of the board
  await sleep(10_000)
  await board.cut()
  const table = JSON.parse(execFileSync('sfdisk', ['-J', card], { encoding: 'utf8' })) as {
    partitiontable: { partitions: { size: number }[] }
  }
  const { size } = table.partitiontable.partitions.at(-1)!
  assert.ok(size * 512 > 600 * MIB, `the data partition reaches to the end of the card: ${size} sectors`)
})

test('after the power was cut the next boot has the same identity and readings, and shows no token', async t => {
  const board = power()
  t.after(board.cut)
  await until('the page of the board', health, BOOT_MS)
  assert.equal(deviceIdOf((await ask('/api/dashboard', token)).text), deviceId)
  await until('the reading', async () => (await ask(`/api/data/packets/${kept}`, token)).status === 200)
  assert.doesNotMatch(board.said(), /Your token/)
  await board.cut()
})

test('a file factory-reset on the start partition: a new identity, and nothing of the old one on the card', async t => {
  const before = dataPartition()
  const at = before.indexOf('-----BEGIN PRIVATE KEY-----')
  assert.ok(at > 0)
  const secret = before.subarray(at, at + 160)
  writeFileSync(join(place, 'factory-reset'), '')
  execFileSync('mcopy', ['-o', '-i', START, join(place, 'factory-reset'), '::factory-reset'])
  const board = power()
  t.after(board.cut)
  const fresh = await tokenOn(board)
  assert.match(board.said(), /factory reset: everything on the data partition is erased/)
  assert.notEqual(fresh, token)
  assert.equal((await ask('/api/dashboard', token)).status, 401)
  assert.notEqual(deviceIdOf((await ask('/api/dashboard', fresh)).text), deviceId)
  await board.cut()
  assert.ok(!dataPartition().includes(secret))
  assert.throws(() => fromCard(START, 'factory-reset'), /File "::factory-reset" not found/)
})

test('a system that was changed on the card does not start', async t => {
  const file = openSync(card, 'r+')
  writeSync(file, Buffer.alloc(64 * 1024, 0x5a), 0, 64 * 1024, 114 * MIB)
  const board = power()
  t.after(board.cut)
  await until('the refusal', () => /is damaged; restarting/.test(board.said()), BOOT_MS)
  await board.cut()
})
