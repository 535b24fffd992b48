// The Wi-Fi access point that the image opens when it has no network: its name, password and label, when it opens and when it closes; the
// Wi-Fi that is set on the page; and the messages of a board at every start. boot.long.test.ts tests it with a radio.
// Needs: linux rigtools
import assert from 'node:assert/strict'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { runWith } from '../lib/busybox'
import { root, tempDir } from '../lib/gateway'

const SCRIPTS = join(root, 'src/build/image/root/usr/lib/os-node')
const WIRE = '2: eth0    inet 10.0.2.15/24 brd 10.0.2.255 scope global eth0'
const OWN = '3: wlan0    inet 192.168.4.1/24 brd 192.168.4.255 scope global wlan0'

/** The folders that a script of the image works on, and programs that replace the system's. */
class Place {
  readonly dir = tempDir()
  readonly #script: string
  /** more programs */
  programs: Record<string, string> = {}

  constructor(script: string) {
    for (const name of ['run/systemd/network', 'data', 'boot', 'lib', 'proc/device-tree', 'sys/class/net'])
      mkdirSync(join(this.dir, name), { recursive: true })
    this.#script = join(this.dir, 'lib', script)
    copyFileSync(join(SCRIPTS, script), this.#script)
    writeFileSync(join(this.dir, 'lib/firewall'), this.logged('firewall'), { mode: 0o700 })
    for (const name of ['addresses', 'dmesg', 'log', 'proc/cmdline']) this.write(name, '')
    this.write('free', '500000')
  }

  logged(name: string): string {
    return `#!/bin/sh\necho ${name} "$@" >>${this.dir}/log\n`
  }

  read(name: string): string {
    return readFileSync(join(this.dir, name), 'utf8')
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.dir, name), text)
  }

  /** Whether the script ended with 0. */
  run(words: string[], folders: string[]): boolean {
    const programs = {
      ip: `#!/bin/sh\ncat ${this.dir}/addresses\n`,
      systemctl: this.logged('systemctl'),
      'systemd-notify': this.logged('systemd-notify'),
      dmesg: `#!/bin/sh\ncat ${this.dir}/dmesg\n`,
      df: `#!/bin/sh\necho Filesystem 1024-blocks Used Available\necho /dev/vda7 600000 1 $(cat ${this.dir}/free) 1% /data\n`,
      ...this.programs,
    }
    try {
      runWith(programs, this.#script, ...words, ...folders.map(name => join(this.dir, name)))
      return true
    } catch {
      return false
    }
  }

  accessPoint(command: string, network = 'wlan0'): boolean {
    return this.run([command, network], ['run', 'data', 'boot'])
  }

  problems(): string {
    assert.ok(this.run([], ['run', 'proc', 'sys', 'data']))
    return this.read('run/os-node-problems.txt')
  }
}

test('name and password are created once, are on the label, and a lost label is written again', () => {
  const board = new Place('access-point')
  assert.ok(board.accessPoint('wanted'))
  const name = board.read('data/access-point/name')
  const password = board.read('data/access-point/password')
  assert.match(name, /^os-node-[0-9a-f]{4}$/)
  assert.match(password, /^[a-hjkmnp-z2-9]{12}$/)
  assert.equal(statSync(join(board.dir, 'data/access-point/password')).mode & 0o777, 0o600)
  const label = `os-node opens this Wi-Fi where it has no network.\n\nWi-Fi: ${name}\nPassword: ${password}\nPage: https://192.168.4.1/\n`
  assert.equal(board.read('boot/os-node-label.txt'), label)
  rmSync(join(board.dir, 'boot/os-node-label.txt'))
  assert.ok(board.accessPoint('wanted'))
  assert.equal(board.read('boot/os-node-label.txt'), label)
  const other = new Place('access-point')
  assert.ok(other.accessPoint('wanted'))
  assert.notEqual(other.read('data/access-point/password'), password)
})

test('no access point opens when another interface has an address, and never a second one', () => {
  const board = new Place('access-point')
  board.write('addresses', `${WIRE}\n`)
  assert.ok(!board.accessPoint('wanted'))
  assert.ok(existsSync(join(board.dir, 'boot/os-node-label.txt')), 'the label exists before it is needed')
  board.write('addresses', `${OWN}\n`)
  assert.ok(board.accessPoint('wanted'), 'its own address is no network')
  mkdirSync(join(board.dir, 'run/os-node-access-point'))
  assert.ok(!board.accessPoint('wanted'))
})

test('the access point opens with WPA2 and gives addresses but no route, shows name and password, and closes once there is a network', () => {
  const board = new Place('access-point')
  board.programs = {
    wpa_supplicant: `${board.logged('wpa_supplicant')}exec tail -f /dev/null\n`,
    busybox: `${board.logged('busybox')}exec tail -f /dev/null\n`,
    // the wired interface gets its address between two checks
    sleep: `#!/bin/sh\necho '${WIRE}' >>${board.dir}/addresses\n`,
  }
  board.write('run/os-node-country', 'DE\n')
  board.write('addresses', `${OWN}\n`)
  assert.ok(board.accessPoint('wanted'))
  assert.ok(board.accessPoint('open'))
  const [name, password] = ['name', 'password'].map(file => board.read(`data/access-point/${file}`))
  const state = join(board.dir, 'run/os-node-access-point')
  assert.equal(
    board.read('run/os-node-access-point/wpa.conf'),
    `country=DE\nnetwork={\n  ssid="${name}"\n  mode=2\n  frequency=2437\n  key_mgmt=WPA-PSK\n  proto=RSN\n  pairwise=CCMP\n  psk="${password}"\n}\n`,
  )
  for (const file of ['wpa.conf', 'text']) assert.equal(statSync(join(state, file)).mode & 0o777, 0o600, file)
  assert.doesNotMatch(board.read('run/os-node-access-point/udhcpd.conf'), /router|dns/)
  assert.match(board.read('run/systemd/network/60-access-point.network'), /^Address=192\.168\.4\.1\/24$/m)
  assert.match(board.read('run/os-node-access-point/text'), new RegExp(`Wi-Fi: ${name}\nPassword: ${password}\n`))
  const log = board.read('log').replaceAll(`${state}/`, '')
  // two programs start at the same time
  assert.deepEqual(log.split('\n').sort(), [
    '',
    'busybox udhcpd -f udhcpd.conf',
    'firewall',
    'systemctl reload systemd-networkd',
    'systemd-notify --ready',
    'wpa_supplicant -c wpa.conf -i wlan0',
  ])
  // nothing of a second radio is closed
  assert.ok(board.accessPoint('close', 'wlan1'))
  assert.ok(existsSync(state))
  assert.ok(board.accessPoint('close'))
  assert.ok(!existsSync(state))
  assert.ok(!existsSync(join(board.dir, 'run/systemd/network/60-access-point.network')))
})

test('with a Wi-Fi in os-node.conf the access point opens only if the board has never joined it, and does not in time', () => {
  const board = new Place('access-point')
  board.programs = { sleep: `#!/bin/sh\necho slept >>${board.dir}/log\n` }
  const known = join(board.dir, 'data/wifi-joined')
  board.write('run/os-node-wifi.conf', 'psk="of a typo"\n')
  assert.ok(board.accessPoint('wanted'))
  assert.match(board.read('log'), /^(slept\n){45}systemctl stop os-node-wifi@wlan0\n$/)
  board.write('addresses', `${WIRE}\n`)
  assert.ok(!board.accessPoint('wanted'), 'a cable is a network')
  assert.ok(!existsSync(known))
  // joined a second after the cable got its address
  board.programs = { sleep: `#!/bin/sh\necho '${OWN}' >>${board.dir}/addresses\n` }
  assert.ok(!board.accessPoint('wanted'))
  assert.equal(statSync(known).mode & 0o777, 0o600)
  board.write('addresses', '')
  board.write('log', '')
  assert.ok(!board.accessPoint('wanted'), 'a Wi-Fi that was joined once is waited for')
  assert.equal(board.read('log'), '')
  board.write('run/os-node-wifi.conf', 'psk="another"\n')
  assert.ok(!board.accessPoint('wanted'), 'joined a second after the start')
  board.write('addresses', '')
  board.write('run/os-node-wifi.conf', 'psk="of a typo"\n')
  board.programs = { sleep: '' }
  assert.ok(board.accessPoint('wanted'), 'another one than the last that was joined')
})

const setWifi = (board: Place): boolean => board.run([], ['run/os-node/wifi-request', 'boot', 'run'])

test('the Wi-Fi of the page replaces that of os-node.conf, whatever editor wrote it, and the board restarts', () => {
  const board = new Place('set-wifi')
  mkdirSync(join(board.dir, 'run/os-node'))
  const before = 'hostname=shed\nwifi_ssid=old\n  wifi_password = old secret\n#wifi_ssid=example\nwifi_country=US'
  for (const text of [
    before,
    before.replaceAll('\n', '\r\n'),
    `\ufeff${before}`,
    Buffer.from(`\ufeff${before}`, 'utf16le'),
  ]) {
    writeFileSync(join(board.dir, 'boot/os-node.conf'), text)
    const request =
      'wifi_ssid=Gärten 2\nwifi_password=new secret\nssh_key=ssh-ed25519 AAAA thief\nhostname=thief\nwifi_country=DE\x07\n'
    board.write('run/os-node/wifi-request', request)
    assert.ok(setWifi(board))
    assert.equal(
      board.read('boot/os-node.conf.new'),
      'hostname=shed\n#wifi_ssid=example\nwifi_country=US\n# by the page\nwifi_ssid=Gärten 2\nwifi_password=new secret\n# complete\n',
    )
    assert.match(board.read('log'), /systemctl reboot\n$/)
  }
  // the next one replaces those lines
  writeFileSync(join(board.dir, 'boot/os-node.conf'), board.read('boot/os-node.conf.new').replace('# complete\n', ''))
  for (const [request, lines] of [
    ['wifi_ssid=Open\n', 'wifi_country=US\n# by the page\nwifi_ssid=Open\n'],
    ['wifi_ssid=Open\nwifi_country=DE\n', '# by the page\nwifi_ssid=Open\nwifi_country=DE\n'],
  ] as const) {
    board.write('run/os-node/wifi-request', request)
    assert.ok(setWifi(board))
    assert.equal(board.read('boot/os-node.conf.new'), `hostname=shed\n#wifi_ssid=example\n${lines}# complete\n`)
  }
})

test('a request without a Wi-Fi, or a start partition that cannot be written, changes nothing, and the reason is kept for the page', () => {
  const board = new Place('set-wifi')
  mkdirSync(join(board.dir, 'run/os-node'))
  board.write('boot/os-node.conf', 'hostname=shed\n')
  for (const text of ['', 'wifi_password=a password\n', 'wifi_ssid=\n', 'x'.repeat(2000)]) {
    board.write('run/os-node/wifi-request', text)
    assert.ok(!setWifi(board))
    assert.equal(board.read('run/os-node-wifi.txt'), 'the request names no Wi-Fi\n')
  }
  board.write('secret', 'wifi_ssid=of another file\n')
  rmSync(join(board.dir, 'run/os-node/wifi-request'))
  symlinkSync(join(board.dir, 'secret'), join(board.dir, 'run/os-node/wifi-request'))
  assert.ok(!setWifi(board))
  rmSync(join(board.dir, 'run/os-node/wifi-request'))
  board.write('run/os-node/wifi-request', 'wifi_ssid=Garden\n')
  board.programs = { sync: '#!/bin/sh\nexit 1\n' }
  assert.ok(!setWifi(board))
  assert.match(board.read('run/os-node-wifi.txt'), /full or cannot be written: os-node\.conf is unchanged/)
  assert.equal(board.read('boot/os-node.conf'), 'hostname=shed\n')
  assert.ok(!existsSync(join(board.dir, 'boot/os-node.conf.new')))
  assert.equal(board.read('log'), '')
  board.programs = {}
  assert.ok(setWifi(board))
  assert.ok(!existsSync(join(board.dir, 'run/os-node-wifi.txt')), 'the reason goes with the next request')
})

test('a radio without access point mode ends with an error, and leaves nothing that blocks the next try', () => {
  const board = new Place('access-point')
  board.programs = { wpa_supplicant: '#!/bin/sh\nexit 1\n', sleep: '#!/bin/sh\nexit 0\n' }
  assert.ok(board.accessPoint('wanted'))
  assert.ok(!board.accessPoint('open'))
  assert.doesNotMatch(board.read('log'), /systemd-notify/)
  assert.ok(board.accessPoint('close'))
  assert.ok(board.accessPoint('wanted'))
})

test('at every start a board reports what its user has to know: other board, radio without firmware, no network, full card', () => {
  const board = new Place('problems')
  board.write('addresses', `${WIRE}\n`)
  board.write('proc/cmdline', 'console=tty1 os_node.board=rpi-4 os_node.version=1.2.3\n')
  board.write('lib/compatible', 'raspberrypi,4-model-b\nraspberrypi,400\n')
  board.write('proc/device-tree/compatible', 'raspberrypi,400\0brcm,bcm2711\0')
  board.write('proc/device-tree/model', 'Raspberry Pi 400 Rev 1.0\0')
  assert.equal(board.problems(), '')

  board.write('proc/device-tree/compatible', 'raspberrypi,4-compute-module\0brcm,bcm2711\0')
  board.write('proc/device-tree/model', 'Raspberry Pi Compute Module 4 Rev 1.0\0')
  assert.equal(
    board.problems(),
    'This card is for rpi-4, the board is Raspberry Pi Compute Module 4 Rev 1.0: make the image with its --board.\n',
  )
  board.write('lib/compatible', '')
  assert.equal(board.problems(), '', 'a board without a list of names')

  const failed = (name: string): string =>
    `[    6.1] brcmfmac mmc1:0001:1: Direct firmware load for brcm/${name} failed with error -2\n`
  board.write(
    'dmesg',
    `${failed('brcmfmac43430b0-sdio.raspberrypi,model-zero-2-w.bin')}${failed('brcmfmac43430b0-sdio.bin')}`,
  )
  assert.match(
    board.problems(),
    /^No Wi-Fi: the image has no brcm\/brcmfmac43430b0-sdio\.bin, .*--firmware DIR adds it\.\n$/,
  )
  writeFileSync(join(board.dir, 'sys/class/net/wlan0'), '')
  assert.equal(board.problems(), '', 'a radio that works by another name of its firmware')
  board.write('addresses', '')
  assert.equal(board.problems(), 'No network: check the cable, or set wifi_ssid and wifi_password in os-node.conf.\n')
  board.write('run/os-node-wifi.conf', '')
  assert.equal(board.problems(), 'No network: check wifi_ssid and wifi_password in os-node.conf, or the cable.\n')
  mkdirSync(join(board.dir, 'run/os-node-access-point'))
  board.write('run/os-node-access-point/text', 'No network. The board opens this Wi-Fi:\n')
  assert.equal(board.problems(), 'No network. The board opens this Wi-Fi:\n')
  board.write('addresses', `${WIRE}\n`)
  rmSync(join(board.dir, 'run/os-node-access-point'), { recursive: true })
  board.write('free', '3')
  assert.match(board.problems(), /^The data partition is full: /)
})
