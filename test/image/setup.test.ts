// os-node.conf on the start partition, as the image reads it at every boot: what each line is converted to, and the message
// for a bad line.
// Needs: linux rigtools
import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { runOnBusybox } from '../lib/busybox'
import { root, tempDir } from '../lib/gateway'
import { prng } from '../lib/random'

const SETUP = join(root, 'src/build/image/root/usr/lib/os-node/setup')

/** The system's files after it read `text`; null: there is no file. */
function setUp(text: string | null): (name: string) => string | null {
  const dir = tempDir()
  if (text !== null) writeFileSync(join(dir, 'os-node.conf'), text)
  runOnBusybox(SETUP, join(dir, 'os-node.conf'), dir)
  return name => (existsSync(join(dir, name)) ? readFileSync(join(dir, name), 'utf8') : null)
}

const shipped = readFileSync(join(root, 'src/build/image/os-node.conf'), 'utf8')

test('the shipped file, an empty one and a missing one change and report nothing', () => {
  for (const text of [shipped, '', null]) {
    const read = setUp(text)
    assert.equal(read('os-node-setup.txt'), '')
    for (const name of [
      'os-node-hostname',
      'os-node-wifi.conf',
      'systemd/network/70-static.network',
      'ssh/authorized_keys',
      'os-node-fetch.conf',
      'systemd/system/os-node-fetch.timer',
    ])
      assert.equal(read(name), null, name)
  }
})

test('every setting of the shipped file is accepted once its # is removed, by any editor', () => {
  const settings = shipped.replace(/^#(\w+=)/gm, '$1').replace('AAAA…', 'AAAAC3Nz')
  for (const text of [
    settings,
    `\ufeff${settings.replaceAll('\n', '\r\n')}`,
    settings.replace(/=/g, ' =\t').trimEnd(),
  ]) {
    const read = setUp(text)
    assert.equal(read('os-node-setup.txt'), '')
    assert.equal(read('os-node-hostname'), 'greenhouse\n')
    assert.equal(
      read('systemd/network/70-static.network'),
      '[Match]\nName=en* eth* wl*\n\n[Network]\nMulticastDNS=yes\nAddress=192.168.1.20/24\nGateway=192.168.1.1\nDNS=192.168.1.1\n',
    )
    assert.equal(
      read('os-node-wifi.conf'),
      `country=DE\nnetwork={\n  ssid=${Buffer.from('My Wi-Fi').toString('hex')}\n  scan_ssid=1\n  key_mgmt=WPA-PSK SAE\n  ieee80211w=1\n  psk="at least 8 characters"\n}\n`,
    )
    assert.equal(read('chrony-sources/os-node.sources'), 'server 192.168.1.1 iburst\n')
    assert.equal(read('ssh/authorized_keys'), 'ssh-ed25519 AAAAC3Nz you@laptop\n')
    assert.equal(read('os-node-fetch.conf'), 'https://example.org/os-node-rpi-4.update\n02:00-05:00\nsun\n')
    assert.match(
      read('systemd/system/os-node-fetch.timer')!,
      /^OnCalendar=sun \*-\*-\* 02:00:00 UTC\nRandomizedDelaySec=90min$/m,
    )
  }
})

test('an invalid line is left out and named; the others apply', () => {
  const read = setUp(
    [
      'hostname=-bad',
      'wifi_ssid=Häuschen "2" $(reboot)',
      'address=192.168.1.20',
      'no equals sign',
      'colour=blue',
      'ssh_key=command="sh" ssh-ed25519 AAAA x',
      'ntp=a;b',
      'wifi_country=de',
      'hostname=good-1',
    ].join('\n'),
  )
  assert.deepEqual(read('os-node-setup.txt')!.split('\n'), [
    'os-node.conf line 1: hostname: letters, digits and hyphens, 63 at most',
    'os-node.conf line 3: address: IPv4 with its prefix, as 192.168.1.20/24',
    'os-node.conf line 4: no = in it',
    'os-node.conf line 5: no setting colour',
    'os-node.conf line 6: ssh_key: a public key in one line, as in id_ed25519.pub',
    'os-node.conf line 7: ntp: a host name or an address',
    'os-node.conf line 8: wifi_country: two capital letters, as DE',
    '',
  ])
  assert.equal(read('os-node-hostname'), 'good-1\n')
  assert.match(
    read('os-node-wifi.conf')!,
    new RegExp(`ssid=${Buffer.from('Häuschen "2" $(reboot)').toString('hex')}\n`),
  )
  assert.equal(read('ssh/authorized_keys'), null)
})

test('an address that cannot exist is named, and a gateway without an address; spaces before a line do not count', () => {
  const wrong = [
    'address=999.1.1.1/24',
    'address=192.168.1.20/64',
    'address=192.168.1.20/0',
    'gateway=300.1.1.1',
    'dns=1.2.3',
  ]
  for (const line of wrong) {
    const read = setUp(line)
    assert.match(read('os-node-setup.txt')!, new RegExp(`^os-node\\.conf line 1: ${line.replace(/=.*/, '')}: `), line)
    assert.equal(read('systemd/network/70-static.network'), null, line)
  }
  assert.match(setUp('gateway=192.168.1.1')('os-node-setup.txt')!, /gateway: it needs an address/)
  const read = setUp('  hostname=good-1\n\taddress=10.0.0.255/8\n')
  assert.equal(read('os-node-setup.txt'), '')
  assert.equal(read('os-node-hostname'), 'good-1\n')
  assert.match(read('systemd/network/70-static.network')!, /^Address=10\.0\.0\.255\/8$/m)
})

test('the bit rate of CAN goes to its unit, and one that no controller has is named', () => {
  assert.equal(setUp('can_bitrate=250000')('os-node-can.conf'), 'BITRATE=250000\n')
  for (const rate of ['250k', '9999', '1000001', '']) {
    const read = setUp(`can_bitrate=${rate}`)
    assert.equal(read('os-node-can.conf'), null, rate)
    assert.match(read('os-node-setup.txt')!, /^os-node\.conf line 1: can_bitrate: bits a second/)
  }
})

test('an invalid Wi-Fi password leaves Wi-Fi off; files with secrets are readable by root only', () => {
  assert.equal(setUp('wifi_ssid=Home\nwifi_password=short\n')('os-node-wifi.conf'), null)
  const dir = tempDir()
  writeFileSync(join(dir, 'c'), 'wifi_ssid=Home\nwifi_password=long enough\nssh_key=ssh-ed25519 AAAA x\n')
  runOnBusybox(SETUP, join(dir, 'c'), dir)
  for (const name of ['os-node-wifi.conf', 'ssh/authorized_keys'])
    assert.equal(statSync(join(dir, name)).mode & 0o777, 0o600, name)
})

test('the schedule of updates: every night without more, over midnight, and invalid lines are named', () => {
  const url = 'update_url=http://10.0.0.1:8080/a.update'
  const timer = 'systemd/system/os-node-fetch.timer'
  const nightly = setUp(`${url}\n`)
  assert.equal(nightly('os-node-fetch.conf'), 'http://10.0.0.1:8080/a.update\n02:00-05:00\n\n')
  assert.match(nightly(timer)!, /^OnCalendar=\*-\*-\* 02:00:00 UTC\nRandomizedDelaySec=90min$/m)
  const over = setUp(`${url}\nupdate_time=23:08-00:09\nupdate_days=mon,fri\n`)
  assert.match(over(timer)!, /^OnCalendar=mon,fri \*-\*-\* 23:08:00 UTC\nRandomizedDelaySec=30min$/m)
  for (const [text, rule] of [
    ['update_url=ftp://example.org/a', /line 1: update_url: an address/],
    ['update_url=https://me:secret@example.org/a', /line 1: update_url: an address/],
    ['update_url=https://example.org/a b', /line 1: update_url: an address/],
    [`${url}\nupdate_time=2-5`, /line 2: update_time: begin and end/],
    [`${url}\nupdate_time=24:00-05:00`, /line 2: update_time: begin and end/],
    [`${url}\nupdate_time=02:00-02:00`, /line 2: update_time: begin and end/],
    [`${url}\nupdate_days=sunday`, /line 2: update_days: as sun/],
    ['update_time=02:00-05:00\nupdate_days=sun', /^$/],
  ] as const) {
    const read = setUp(text)
    assert.match(read('os-node-setup.txt')!, rule, text)
    assert.equal(read(timer) === null, !text.includes(url), text)
  }
})

test('with a damaged os-node.conf the board starts with defaults, ten lines are named, and the others are counted', () => {
  const random = prng(15)
  const bytes = Buffer.from(Array.from({ length: 200_000 }, () => 256 * random()))
  const dir = tempDir()
  const damaged = join(dir, 'damaged')
  writeFileSync(damaged, bytes)
  runOnBusybox(SETUP, damaged, dir)
  const report = readFileSync(join(dir, 'os-node-setup.txt'), 'latin1').trimEnd().split('\n')
  assert.equal(report.length, 11)
  for (const line of report.slice(0, 10)) assert.match(line, /^os-node\.conf line \d+: [ -~]{1,80}$/)
  assert.match(report[10]!, /^os-node\.conf: \d+ more lines cannot be used: is the file damaged\?$/)
  assert.ok(!existsSync(join(dir, 'os-node-hostname')))
  const long = setUp(`hostname=good-1\n${'#'.repeat(70_000)}\nhostname=late\n`)
  assert.equal(long('os-node-hostname'), 'good-1\n')
  assert.match(long('os-node-setup.txt')!, /the file is longer than 64 KiB: only the first 64 KiB are read/)
  const folder = tempDir()
  runOnBusybox(SETUP, folder, dir)
  assert.match(readFileSync(join(dir, 'os-node-setup.txt'), 'utf8'), /os-node\.conf is no file: nothing of it is used/)
})

test('a UTF-16 file of an editor is read', () => {
  const dir = tempDir()
  writeFileSync(join(dir, 'c'), Buffer.from('\ufeffhostname=good-1\r\n', 'utf16le'))
  runOnBusybox(SETUP, join(dir, 'c'), dir)
  assert.equal(readFileSync(join(dir, 'os-node-hostname'), 'utf8'), 'good-1\n')
  assert.equal(readFileSync(join(dir, 'os-node-setup.txt'), 'utf8'), '')
})

test('the reset button must be a GPIO of the header that is no identification pin; the country of the Wi-Fi is also that of the access point', () => {
  for (const gpio of ['2', '9', '10', '27'])
    assert.equal(setUp(`reset_button=${gpio}`)('os-node-reset-button'), `${gpio}\n`)
  for (const gpio of ['0', '1', '28', 'GPIO21', '021', '']) {
    const read = setUp(`reset_button=${gpio}`)
    assert.equal(read('os-node-reset-button'), null, gpio)
    assert.equal(read('os-node-setup.txt'), 'os-node.conf line 1: reset_button: the number of a GPIO, 2 to 27\n')
  }
  assert.equal(setUp('wifi_country=DE')('os-node-country'), 'DE\n')
})
