// `os-node flash` against a file in place of a card and folders in place of the kernel's: which disks are listed and refused, what is on
// the card after it, and that settings are in os-node.conf. test/net/flash.test.ts writes a real block device.
// Needs: image
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { disksText, removableDisks } from '../../../src/update/disks'
import { type FlashOptions, flash, imageOf } from '../../../src/update/flash'
import { makeCardImage, START, START_BYTES } from '../../lib/card-image'
import { root, tempDir } from '../../lib/gateway'

const MIB = 2 ** 20
const SHIPPED = '# Settings of this gateway\n'
/** the card as the kernel describes it, and as much of it as exists */
const CARD = 64 * MIB
const FILE = 16 * MIB
const image = makeCardImage(SHIPPED)

interface FakeDisk {
  files?: Record<string, string>
  part?: string
  holder?: boolean
}

/** A machine with disks; each is a file in dev. */
function machineOf(disks: Record<string, FakeDisk>, { mounts = '', swaps = '' } = {}) {
  const dir = tempDir()
  const put = (path: string, text: string): void => {
    mkdirSync(join(dir, path, '..'), { recursive: true })
    writeFileSync(join(dir, path), text)
  }
  put('proc/self/mountinfo', mounts)
  put('proc/swaps', `Filename Type\n${swaps}`)
  for (const [at, [name, { files = {}, part, holder }]] of Object.entries(disks).entries()) {
    const all = { size: `${CARD / 512}\n`, removable: '1\n', ro: '0\n', dev: `8:${at * 16}\n`, ...files }
    for (const [file, text] of Object.entries(all)) put(`sys/block/${name}/${file}`, text)
    if (part) {
      put(`sys/block/${name}/${part}/partition`, '1\n')
      put(`sys/block/${name}/${part}/dev`, `8:${at * 16 + 1}\n`)
      put(`sys/class/block/${part}/partition`, '1\n')
    }
    if (holder) mkdirSync(join(dir, `sys/block/${name}/${part ?? '.'}/holders/dm-0`), { recursive: true })
    put(`dev/${name}`, '')
    truncateSync(join(dir, 'dev', name), FILE)
  }
  return { sys: join(dir, 'sys'), dev: join(dir, 'dev'), proc: join(dir, 'proc') }
}

/** Nothing was written to a disk: its file has no block. */
const assertUnwritten = ({ dev }: { dev: string }, name: string): void =>
  assert.equal(statSync(join(dev, name)).blocks, 0)

const card = () => machineOf({ sdb: {} })
const run = (options: Partial<FlashOptions>) =>
  flash({ device: 'sdb', image, yes: true, print: () => {}, machine: card(), ...options })
const confOf = (path: string): string =>
  execFileSync('mcopy', ['-i', `${path}@@${START}`, '::os-node.conf', '-'], { encoding: 'utf8' })

test('only removable disks are listed, with what prevents writing them', () => {
  const disks = {
    sda: { files: { removable: '0\n' } },
    sdb: { files: { 'device/vendor': 'Generic \n', 'device/model': 'MassStorage\n' }, part: 'sdb1' },
    sdc: { files: { size: '0\n' } },
    sdd: { files: { ro: '1\n' } },
    sde: { part: 'sde1', holder: true },
    mmcblk0: { files: { removable: '0\n', 'device/type': 'SD\n', 'device/name': 'SC32G\n' } },
    mmcblk1: { files: { removable: '0\n', 'device/type': 'MMC\n' } },
    zram0: { files: { removable: '0\n' } },
  }
  const machine = machineOf(disks, { mounts: '36 35 8:17 / /media/a rw - vfat /dev/sdb1 rw\n' })
  const lines = disksText(removableDisks(machine)).replaceAll(`${machine.dev}/`, '/dev/').split('\n')
  assert.deepEqual(
    lines.map(line => line.split(/ {2,}/)),
    [
      ['device', 'size', 'model', 'state'],
      ['/dev/mmcblk0', '0.1 GB', 'SC32G', 'ready'],
      ['/dev/sdb', '0.1 GB', 'Generic MassStorage', 'mounted at /media/a'],
      ['/dev/sdd', '0.1 GB', '-', 'write-protected'],
      ['/dev/sde', '0.1 GB', '-', 'in use'],
    ],
  )
  assert.equal(disksText([]), 'no removable disk: put a card in')
})

test('a disk that must not be written is refused with what to do, and nothing is written', async () => {
  const refused = async (
    device: string,
    disks: Record<string, FakeDisk>,
    more: object,
    message: RegExp,
    hint: RegExp,
  ) => {
    const machine = machineOf(disks, more)
    await assert.rejects(run({ machine, device }), { code: 'E_FLASH', message, hint })
    for (const name of Object.keys(disks)) assertUnwritten(machine, name)
  }
  const part = { sdb: { part: 'sdb1' } }
  await refused('sdb', { sdb: { files: { removable: '0\n' } } }, {}, /sdb is not removable/, /lists cards/)
  await refused('sdb1', part, {}, /sdb1 is a partition/, /complete disk/)
  await refused('sdz', part, {}, /sdz is not a disk/, /lists them/)
  await refused('sdb', { sdb: { files: { size: '0\n' } } }, {}, /has no card/, /put a card in/)
  await refused('sdb', { sdb: { files: { ro: '1\n' } } }, {}, /write-protected/, /lock/)
  await refused('sdb', { sdb: { part: 'sdb1', holder: true } }, {}, /in use/, /swapoff/)
  await refused('sdb', { sdb: { files: { size: '2048\n' } } }, {}, /the image has 0\.0 GB/, /larger card/)
  const mounts = '36 35 8:1 / /media/a rw - vfat /dev/sdb1 rw\n'
  await refused('sdb', part, { mounts }, /mounted at \/media\/a/, /^sudo umount \/media\/a$/)
})

test('a disk is refused by the name of its device where the mount has another number, and as swap', async () => {
  const machine = machineOf({ sdb: { part: 'sdb1' } })
  writeFileSync(join(machine.proc, 'self/mountinfo'), `36 35 0:44 / /mnt rw - btrfs ${machine.dev}/sdb1 rw\n`)
  await assert.rejects(run({ machine }), { code: 'E_FLASH', message: /mounted at \/mnt/ })
  writeFileSync(join(machine.proc, 'self/mountinfo'), '')
  writeFileSync(join(machine.proc, 'swaps'), `Filename\n${machine.dev}/sdb1 partition\n`)
  await assert.rejects(run({ machine }), { code: 'E_FLASH', message: /in use/ })
  symlinkSync(join(machine.dev, 'sdb'), join(machine.dev, 'by-id'))
  await assert.rejects(run({ machine, device: join(machine.dev, 'by-id') }), {
    code: 'E_FLASH',
    message: /sdb is in use/,
  })
})

test('a card contains the image byte for byte, compressed or not, and the space after it is unchanged', async () => {
  const plain = readFileSync(image)
  execFileSync('xz', ['-f', '-k', '-0', image])
  for (const from of [image, `${image}.xz`]) {
    const machine = card()
    const path = join(machine.dev, 'sdb')
    writeFileSync(path, Buffer.alloc(FILE, 0x55))
    const lines: string[] = []
    const answer = await run({ machine, image: from, print: line => lines.push(line) })
    assert.match(JSON.stringify(answer), new RegExp(`"bytes":${plain.length},"sha256":"[0-9a-f]{64}"`))
    const got = readFileSync(path)
    assert.ok(got.subarray(0, plain.length).equals(plain))
    assert.ok(got.subarray(plain.length).equals(Buffer.alloc(FILE - plain.length, 0x55)))
    assert.match(lines.join('\n'), /write 100 %\nverify 0 %[\s\S]*verify 100 %\n.*written and verified/)
  }
})

test('settings are in os-node.conf after the text of the image, however many keys there are', async () => {
  const keys = Array.from({ length: 12 }, (_, at) => `ssh-ed25519 ${'A'.repeat(400)} key-${at}`).join('\r\n')
  const machine = card()
  const wifi = { ssid: 'Häuschen: 2', password: 'at least 8' }
  await run({ machine, hostname: 'greenhouse', wifi, country: 'DE', keys: `# mine\n${keys}\n` })
  const expected = [
    SHIPPED,
    '# by os-node flash',
    'hostname=greenhouse',
    'wifi_ssid=Häuschen: 2',
    'wifi_password=at least 8',
    'wifi_country=DE',
    ...keys.split('\r\n').map(key => `ssh_key=${key}`),
    '',
  ]
  const path = join(machine.dev, 'sdb')
  assert.equal(confOf(path), expected.join('\n'))
  writeFileSync(`${path}.fat`, readFileSync(path).subarray(START, START + START_BYTES))
  // fsck.vfat finds copies of the table that differ, lost clusters and wrong sizes
  execFileSync('fsck.vfat', ['-n', `${path}.fat`], { stdio: 'pipe' })
})

test('a setting that the board would refuse is refused before anything is written', async () => {
  for (const [settings, message] of [
    [{ hostname: '-a' }, /^hostname: letters/],
    [{ wifi: { ssid: 'a', password: 'short' } }, /^wifi_password: 8/],
    [{ wifi: { ssid: 'ä'.repeat(17), password: '' } }, /^wifi_ssid: 32 bytes/],
    [{ wifi: { ssid: 'a\nhostname=b', password: '' } }, /^wifi_ssid: a name/],
    [{ country: 'de' }, /^wifi_country: two/],
    [{ keys: 'PRIVATE KEY' }, /^ssh_key: a public key/],
  ] as const)
    await assert.rejects(run(settings), { code: 'BAD_ARGUMENT', message })
})

test('a file that is no image of os-node, is truncated, or is missing is refused; the card starts nothing', async () => {
  const dir = tempDir()
  const other = join(dir, 'other.img')
  writeFileSync(other, Buffer.alloc(8 * MIB))
  await assert.rejects(run({ image: other }), { code: 'E_FLASH', message: /not an os-node image/ })
  writeFileSync(other, readFileSync(image).subarray(0, 3 * MIB))
  await assert.rejects(run({ image: other }), { code: 'E_FLASH', message: /not an os-node image/ })
  await assert.rejects(run({ image: join(dir, 'x.img') }), { code: 'E_FLASH', message: /there is no file/ })
  execFileSync('xz', ['-f', '-k', '-0', image])
  const cut = join(dir, 'cut.img.xz')
  const bytes = readFileSync(`${image}.xz`)
  writeFileSync(cut, bytes.subarray(0, bytes.length - 40))
  await assert.rejects(run({ image: cut }), { code: 'E_FLASH', message: /damaged or truncated/, hint: /again/ })
  // a list that is whole, and contents that are not
  const broken = Buffer.from(bytes)
  broken.fill(0, Math.floor(bytes.length / 2), Math.floor(bytes.length / 2) + 64)
  writeFileSync(cut, broken)
  const machine = card()
  writeFileSync(join(machine.dev, 'sdb'), Buffer.alloc(FILE, 0x55))
  await assert.rejects(run({ image: cut, machine }), { code: 'E_FLASH', message: /damaged or truncated/ })
  assert.notEqual(readFileSync(join(machine.dev, 'sdb')).readUInt16LE(510), 0xaa55)
})

test('a card that reads back other bytes is reported', async () => {
  const machine = card()
  const path = join(machine.dev, 'sdb')
  const spoil = (line: string): void => {
    if (line !== 'verify 0 %') return
    const bytes = readFileSync(path)
    bytes[10 * MIB]! ^= 1
    writeFileSync(path, bytes)
  }
  await assert.rejects(run({ machine, print: spoil }), {
    code: 'E_FLASH',
    message: /returns other data/,
    hint: /another card/,
  })
})

test('flash asks for the name of the disk, and any other answer writes nothing', async () => {
  const machine = card()
  const asked: string[] = []
  const ask = (answer: string) => (question: string) => {
    asked.push(question)
    return Promise.resolve(answer)
  }
  for (const answer of ['', 'y', 'sda'])
    await assert.rejects(run({ machine, yes: false, ask: ask(answer) }), {
      code: 'E_FLASH',
      message: /nothing was written/,
    })
  assertUnwritten(machine, 'sdb')
  assert.match(asked[0]!, /Everything on .*sdb \(-, 0\.1 GB\) will be erased, .*\nType sdb to continue: /)
  await run({ machine, yes: false, ask: ask('sdb\n') })
  assert.equal(readFileSync(join(machine.dev, 'sdb')).readUInt16LE(510), 0xaa55)
})

test('--board downloads the newest image of that board; a board that no image is made for is answered with those that are', async () => {
  const dir = tempDir()
  const put = (name: string): void => writeFileSync(join(dir, name), '')
  for (const name of ['os-node-rpi-4-0.1.0.img', 'os-node-rpi-40-0.1.0.img', 'os-node-rpi-4-0.1.0.update']) put(name)
  assert.equal(imageOf('rpi-4', [join(dir, 'none'), dir]), join(dir, 'os-node-rpi-4-0.1.0.img'))
  assert.throws(() => imageOf('cm4', [dir]), { code: 'E_FLASH', message: /no image for cm4/, hint: /--board cm4/ })
  const boards = await import(join(root, 'src/build/image/boards.mjs'))
  assert.throws(() => imageOf('rpi-9', [dir]), {
    code: 'E_FLASH',
    message: /no image for rpi-9/,
    hint: `the boards are ${Object.keys(boards.IMAGE_BOARDS).join(', ')}`,
  })
})
