// Raspberry Pi Imager: the files that it reads next to an image, and how the board uses the files that it writes. The folders
// imager/1.9 and imager/2.0 have what these versions write for one set of answers, written by hand after their source: no Imager ran here.
// Needs: linux rigtools
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { runOnBusybox, runWith } from '../lib/busybox'
import { root, tempDir } from '../lib/gateway'

const SCRIPTS = join(root, 'src/build/image/root/usr/lib/os-node')
const shipped = readFileSync(join(root, 'src/build/image/os-node.conf'), 'utf8')
/** of the shipped os-node.conf */
const LINES = shipped.split('\n').length - 1
const PSK = 'b3f2a1c04d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8'

interface Read {
  /** what the board added to os-node.conf */
  added: string
  /** the text on the screen below the fingerprint */
  said: string[]
  /** files on the start partition after the boot */
  files: string[]
  system(name: string): string | null
}

/** The result of a boot with `files` on the start partition; a folder: all files in it. */
function boot(files: string | Record<string, string>, start = tempDir()): Read {
  const run = tempDir()
  if (!existsSync(join(start, 'os-node.conf'))) writeFileSync(join(start, 'os-node.conf'), shipped)
  if (typeof files === 'string') cpSync(files, start, { recursive: true })
  else for (const [name, text] of Object.entries(files)) writeFileSync(join(start, name), text)
  runOnBusybox(join(SCRIPTS, 'imager'), start, run)
  runOnBusybox(join(SCRIPTS, 'setup'), join(start, 'os-node.conf'), run)
  const conf = readFileSync(join(start, 'os-node.conf'), 'utf8')
  assert.ok(conf.startsWith(shipped), 'what a person wrote stays')
  return {
    added: conf.slice(shipped.length),
    said: readFileSync(join(run, 'os-node-setup.txt'), 'utf8').split('\n').slice(0, -1),
    files: readdirSync(start).sort(),
    system: name => (existsSync(join(run, name)) ? readFileSync(join(run, name), 'utf8') : null),
  }
}

const cloud = (...lines: string[]) => ({ 'user-data': ['#cloud-config', ...lines, ''].join('\n') })
const saidOf = (files: Record<string, string>) => boot(files).said

for (const { version, ssid, lines } of [
  { version: '1.9', ssid: 'My Wi-Fi', lines: { passwd: 17, timezone: 24 } },
  { version: '2.0', ssid: 'Häuschen "2"', lines: { passwd: 22, timezone: 14 } },
])
  test(`host name, keys and Wi-Fi by Imager ${version} apply from the first boot on, and its files are removed`, () => {
    const start = tempDir()
    const read = boot(join(root, 'test/image/imager', version), start)
    const settings = [
      'hostname=greenhouse-1',
      'ssh_key=ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8y me@laptop',
      'ssh_key=ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQDV you@desk',
      `wifi_ssid=${ssid}`,
      `wifi_password=${PSK}`,
      'wifi_country=DE',
    ]
    assert.equal(read.added, `\n# by Raspberry Pi Imager\n${settings.join('\n')}\n`)
    assert.deepEqual(read.files, ['os-node.conf'])
    assert.deepEqual(
      read.said.sort(),
      [
        `user-data line ${lines.timezone}: timezone: the gateway works in UTC, and the page shows the time of the browser`,
        `user-data line ${lines.passwd}: passwd: no password is set: the remote shell takes keys only`,
      ].sort(),
    )
    for (const { system } of [read, boot({}, start)]) {
      assert.equal(system('os-node-hostname'), 'greenhouse-1\n')
      assert.equal(system('ssh/authorized_keys')!.split('\n').length, 3)
      const hex = Buffer.from(ssid).toString('hex')
      assert.equal(
        system('os-node-wifi.conf'),
        `country=DE\nnetwork={\n  ssid=${hex}\n  scan_ssid=1\n  key_mgmt=WPA-PSK\n  ieee80211w=1\n  psk=${PSK}\n}\n`,
      )
    }
  })

test('a card without files of Imager, or with empty answers, changes and reports nothing', () => {
  const none: Record<string, string>[] = [{}, cloud(), { 'meta-data': 'instance-id: rpi-imager-1\n' }]
  for (const files of none) {
    const { added, said } = boot(files)
    assert.deepEqual({ added, said }, { added: '', said: [] })
  }
})

test('the same answers once more, as after a power cut, add nothing', () => {
  const start = tempDir()
  boot(cloud('hostname: a'), start)
  const { added } = boot(cloud('hostname: a'), start)
  assert.equal(added, '\n# by Raspberry Pi Imager\nhostname=a\n')
})

test('a start completes what a power cut left of os-node.conf, and leaves out a new one that is not whole', () => {
  const start = tempDir()
  const both = (conf: string, fresh: string): void => {
    writeFileSync(join(start, 'os-node.conf'), conf)
    writeFileSync(join(start, 'os-node.conf.new'), fresh)
  }
  both(shipped.slice(0, 40), `${shipped}\nhostname=a\n# complete\n`)
  const whole = boot({}, start)
  assert.deepEqual(
    [whole.added, whole.files, whole.system('os-node-hostname')],
    ['\nhostname=a\n', ['os-node.conf'], 'a\n'],
  )
  for (const cut of ['', '\nhostname=b\n', '\nhostname=b\n# compl']) {
    both(shipped, shipped + cut)
    const { added, files } = boot({}, start)
    assert.deepEqual([added, files], ['', ['os-node.conf']])
  }
  const again = boot(cloud('hostname: c'), start)
  assert.equal(again.added, '\n# by Raspberry Pi Imager\nhostname=c\n')
})

test('an invalid line of user-data is named, and the others apply', () => {
  const read = boot(
    cloud(
      'hostname: -bad',
      'gibberish',
      'fqdn: a.example.org',
      'ssh_pwauth: true',
      'users:',
      '  - default',
      '  - name: a',
      '    plain_text_passwd: secret',
      '    ssh_authorized_keys:',
      '      - "ssh-ed25519 AAAA a',
      '      - "ssh-ed25519 AAAB\\x0ahostname=evil"',
      '      - ssh-ed25519 AAAC c # of the office',
      'runcmd:',
      '  - [ reboot ]',
      '  - [ rfkill, unblock, wifi ]',
      'ssh_authorized_keys:',
      '  - ssh-ed25519 AAAD d',
    ),
  )
  assert.deepEqual(read.said, [
    'user-data line 3: not of the form "name: value"',
    'user-data line 4: no setting fqdn',
    'user-data line 5: ssh_pwauth: no password is set: the remote shell takes keys only',
    'user-data line 9: plain_text_passwd: no password is set: the remote shell takes keys only',
    'user-data line 11: the closing quote is missing',
    'user-data line 12: it has an escape that cannot be used',
    'user-data line 15: runcmd: commands are not run',
    `os-node.conf line ${LINES + 3}: hostname: letters, digits and hyphens, 63 at most`,
  ])
  assert.equal(read.system('ssh/authorized_keys'), 'ssh-ed25519 AAAC c\nssh-ed25519 AAAD d\n')
  assert.equal(read.system('os-node-hostname'), null)
})

test('an invalid network-config is named, and the board starts without Wi-Fi', () => {
  const wifi = (...lines: string[]) => ({
    'network-config': ['version: 2', 'wifis:', '  wlan0:', '    access-points:', ...lines, ''].join('\n'),
  })
  assert.deepEqual(saidOf({ 'network-config': 'ethernets:\n  eth0:\n    addresses:\n' }), [
    'network-config line 3: no setting addresses; a fixed address goes into os-node.conf',
  ])
  assert.deepEqual(saidOf({ 'network-config': '\x00\x01\xff nonsense\n' }), [
    'network-config line 1: not of the form "name: value"',
  ])
  const short = boot(wifi('      "Home":', '        password: "short"'))
  assert.equal(short.system('os-node-wifi.conf'), null)
  assert.deepEqual(short.said, [
    `os-node.conf line ${LINES + 4}: wifi_password: 8 to 63 characters of ASCII; without it there is no Wi-Fi`,
  ])
  const two = boot(wifi('      a:', '        password: aaaaaaaa', '      b:', '        password: bbbbbbbb'))
  assert.deepEqual(two.said, ['network-config line 7: one Wi-Fi network can be used, the first'])
  assert.match(two.system('os-node-wifi.conf')!, /ssid=61\n[\s\S]*psk="aaaaaaaa"/)
  const open = boot(wifi('      "Café \\\\ \\"x\\"":', '        auth:', '          key-management: none'))
  assert.deepEqual(open.said, [])
  assert.match(
    open.system('os-node-wifi.conf')!,
    new RegExp(`ssid=${Buffer.from('Café \\ "x"').toString('hex')}\n[\\s\\S]*key_mgmt=NONE`),
  )
})

test('a script, a foreign command line and a foreign user-data are named and not run', () => {
  const read = boot({
    'user-data': '#!/bin/sh\nhostname: a\n',
    'cmdline.txt': 'cfg80211.ieee80211_regdom=FR ds=nocloud;i=1 quiet *',
    'firstrun.sh': '#!/bin/sh\n',
  })
  assert.deepEqual(read.said, [
    'user-data line 1: it does not begin with #cloud-config: nothing of it is used',
    'cmdline.txt line 1: quiet does not reach the kernel',
    'cmdline.txt line 1: * does not reach the kernel',
    'firstrun.sh line 1: it is not run: write the card with the manifest of the image, or edit os-node.conf',
  ])
  assert.equal(read.added, '\n# by Raspberry Pi Imager\nwifi_country=FR\n')
  assert.deepEqual(read.files, ['os-node.conf'])
})

test('a read-only start partition keeps the files, and the report says so', () => {
  const start = tempDir()
  mkdirSync(join(start, 'os-node.conf.new'))
  const { added, said, files } = boot(cloud('hostname: a'), start)
  assert.equal(added, '')
  assert.deepEqual(said, ['the start partition cannot be written: what Raspberry Pi Imager set is not used'])
  assert.ok(files.includes('user-data'))
})

test('the files next to an image have the fields of Imager, and the same bytes for the same image', async () => {
  const { writeForImager } = (await import(join(root, 'src/build/image/imager.mjs'))) as {
    writeForImager(image: string, about: object): string[]
  }
  const image = join(tempDir(), 'os-node-rpi-4-1.2.3.img')
  writeFileSync(image, Buffer.alloc(3 * 2 ** 20 + 5, 'i'))
  writeFileSync(`${image}.xz`, 'packed')
  const about = { tag: 'pi4-64bit', board: 'rpi-4', version: '1.2.3', builtAt: Date.parse('2026-01-02T03:04:05Z') }
  const write = (base?: string) => writeForImager(image, { ...about, base }).map(path => readFileSync(path, 'utf8'))
  const [repository, manifest] = write('https://example.org/os-node').map(text => JSON.parse(text))
  const sha256 = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex')
  const system = {
    name: 'os-node 1.2.3 (rpi-4)',
    description: 'Gateway that reads sensors and buses and forwards the readings',
    icon: 'icons/use_custom.png',
    url: 'https://example.org/os-node/os-node-rpi-4-1.2.3.img.xz',
    extract_size: 3 * 2 ** 20 + 5,
    extract_sha256: sha256(image),
    image_download_size: 6,
    image_download_sha256: sha256(`${image}.xz`),
    release_date: '2026-01-02',
    devices: ['pi4-64bit'],
    architecture: 'armv8',
    init_format: 'cloudinit',
  }
  assert.deepEqual(repository.os_list, [system])
  assert.deepEqual(manifest.os_list, [{ ...system, url: pathToFileURL(`${image}.xz`).href }])
  assert.deepEqual(repository.imager.devices[0].tags, system.devices)
  const first = write()
  assert.deepEqual(write(), first)
  assert.match(first[0]!, /"url": "os-node-rpi-4-1\.2\.3\.img\.xz"/)
})

test('the last line of os-node.conf stays where a phone ended it without a line end, with and without new settings', () => {
  for (const line of ['timezone: Europe/Berlin', 'hostname: greenhouse-1']) {
    const start = tempDir()
    writeFileSync(join(start, 'os-node.conf'), `${shipped}wifi_password=a secret`)
    const { added } = boot(cloud(line), start)
    assert.match(added, /^wifi_password=a secret\n/)
    assert.equal(boot({}, start).added, added)
  }
})

test('the files of Imager are removed after the lines made from them were flushed, each file by name: a sync of everything does not flush the cache of the card', () => {
  const start = tempDir()
  for (const [name, text] of Object.entries({ ...cloud('hostname: greenhouse-1'), 'os-node.conf': shipped }))
    writeFileSync(join(start, name), text)
  const log = join(tempDir(), 'flushed')
  const sync = `#!/bin/sh\necho "$@:" $(ls) >>${log}\n`
  runWith({ sync }, join(SCRIPTS, 'imager'), start, tempDir())
  const flushed = readFileSync(log, 'utf8')
  assert.equal(
    flushed,
    [
      'os-node.conf.new .: os-node.conf os-node.conf.new user-data',
      'os-node.conf .: os-node.conf os-node.conf.new user-data',
      '.: os-node.conf user-data',
      '.: os-node.conf',
      '',
    ].join('\n'),
  )
})
