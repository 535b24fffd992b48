// A board as its owner set it up in os-node.conf, on the emulated board: it joins the Wi-Fi of the file, whose access point is a second radio of
// the same kernel, and takes its address by DHCP; the screen shows token, address and code; then a fixed address. Both with what a card can be: a
// full start partition, a full data partition. Only `npm run test:image` runs it.
// Only: npm run test:image
// Needs: x64 boards debs image sshd
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freePort } from '../lib/gateway'
import { Board, PLACES, type Power, until } from './board'

const board = new Board()
/** characters that shells and configuration files read as syntax */
const SSID = 'Home & "garden" #1'
const PASSWORD = 'pass word $x\\9'

before(async () => {
  await board.make(`hostname=greenhouse-1\r\nwifi_ssid=${SSID}\r\nwifi_password=${PASSWORD}\r\n`, '240s')
  board.addToCommandLine(PLACES.bootA, 'modules_load=mac80211_hwsim')
})
after(() => board.remove())

/** Makes the second radio an access point with an address and a DHCP server. */
const ACCESS_POINT = `
systemctl stop os-node-wifi@wlan1
printf '[Match]\\nName=wlan1\\n\\n[Link]\\nUnmanaged=yes\\n' >/run/systemd/network/10-other.network
systemctl reload systemd-networkd
ip addr add 10.9.8.1/24 dev wlan1
cat >/run/other.conf <<'END'
network={
  ssid=${Buffer.from(SSID).toString('hex')}
  mode=2
  frequency=2437
  key_mgmt=WPA-PSK
  proto=RSN
  pairwise=CCMP
  psk="${PASSWORD}"
}
END
wpa_supplicant -B -i wlan1 -c /run/other.conf
printf 'start 10.9.8.20\\nend 10.9.8.30\\ninterface wlan1\\nlease_file /run/other.leases\\noption subnet 255.255.255.0\\n' >/run/other-dhcp.conf
touch /run/other.leases
nft insert rule inet os-node input iifname wlan1 udp dport 67 accept
busybox udhcpd /run/other-dhcp.conf
`

/** Rows of the picture in which light and dark change as often as in a QR code. */
function codeRows(picture: string): number {
  const file = readFileSync(picture)
  const head = /^P6\s+(\d+)\s+(\d+)\s+255\s/.exec(file.subarray(0, 40).toString('latin1'))!
  const [width, height] = [Number(head[1]), Number(head[2])]
  const bytes = file.subarray(head[0].length)
  let rows = 0
  for (let y = 0; y < height; y++) {
    let changes = 0
    for (let x = 1; x < width; x++) {
      const at = 3 * (y * width + x)
      if (bytes[at]! > 127 !== bytes[at - 3]! > 127) changes++
    }
    if (changes > 20) rows++
  }
  return rows
}

async function shownOnScreen(power: Power): Promise<void> {
  const picture = join(board.place, 'screen.ppm')
  await until('the code on the screen', async () => {
    await power.tell(`screendump ${picture}`)
    return codeRows(picture) > 60
  })
}

test('a board joins the Wi-Fi of os-node.conf and takes its address by DHCP; screen and console show a code; a full start partition is named', async t => {
  board.fillFreeSpace('x', true)
  board.extra = ['-device', 'virtio-gpu-pci']
  const power = board.power()
  board.extra = []
  t.after(power.cut)
  await until('the token', () => /Your token:\s+[\w-]{43}\n/.test(power.said()))
  const blocks = (line: string): number => line.replace(/[^\u2580\u2584\u2588]/g, '').length
  await until(
    'a code on the console',
    () =>
      power
        .said()
        .split('\n')
        .filter(line => blocks(line) > 15).length > 10,
  )
  await until('the reason', () => power.said().includes('The start partition is full or cannot be written'))
  await shownOnScreen(power)
  await board.shell(ACCESS_POINT)
  const address = await until('an address by Wi-Fi', async () => {
    const { text } = await board.shell('ip -o -4 addr show wlan0')
    return /inet (10\.9\.8\.2\d)\//.exec(text)?.[1]
  })
  const { text } = await board.shell(
    `/usr/lib/os-node/node -e "require('https').get({host:'${address}',rejectUnauthorized:false},res=>console.log('page',res.statusCode))"`,
  )
  assert.match(text, /^page 200$/m)
  // the next start has no room for data
  await board.shell('dd if=/dev/zero of=/data/filler bs=1M; dd if=/dev/zero of=/data/filler2 bs=4k; sync')
  await power.cut()
})

/** Status of the page at that port of this machine; 0: no answer. */
const page = (port: number): Promise<number> =>
  new Promise(resolve => {
    const options = { host: '127.0.0.1', port, path: '/', rejectUnauthorized: false, timeout: 20_000 }
    const asked = request({ ...options, headers: { host: 'greenhouse-1.local' } }, res => {
      res.resume()
      resolve(res.statusCode!)
    })
    asked.once('error', () => resolve(0)).once('timeout', () => asked.destroy(new Error('no answer')))
    asked.end()
  })

test('with a fixed address in os-node.conf the page is there; a full data partition is named, and the gateway works in RAM', async t => {
  const port = await freePort()
  board.write('os-node.conf', 'hostname=greenhouse-1\naddress=10.0.2.77/24\ngateway=10.0.2.2\ndns=10.0.2.3\n')
  board.network = `hostfwd=tcp:127.0.0.1:${port}-10.0.2.77:443,`
  const power = board.power()
  board.network = ''
  t.after(power.cut)
  await until('the page at the fixed address', async () => (await page(port)) === 200)
  await until('the report', () => power.said().includes('The data partition is full'))
})
