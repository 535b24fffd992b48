// The Wi-Fi that a board opens without a cable: what it shows, and a second radio that joins it. And the one that the page sets, which the
// second radio opens.
import assert from 'node:assert/strict'
import { type Board, until } from './board'

/** The actions of a board with a second radio: it joins the Wi-Fi, requests an address and then the page. Run without the cable. */
const JOIN = `
wire=$(ls /sys/class/net | grep '^e')
printf '[Match]\\nName=wlan1\\n\\n[Link]\\nUnmanaged=yes\\n' >/run/systemd/network/10-client.network
systemctl reload systemd-networkd
ip link set "$wire" down
systemctl start os-node-access-point@wlan0
wpa_passphrase "$(cat /data/access-point/name)" "$(cat /data/access-point/password)" >/run/client.conf
ip link set wlan1 up
wpa_supplicant -B -i wlan1 -c /run/client.conf
printf '#!/bin/sh\\n[ "$1" != bound ] || echo "lease $ip $subnet router=$router dns=$dns"\\n' >/run/lease
chmod 700 /run/lease
busybox udhcpc -i wlan1 -n -q -t 60 -s /run/lease
/usr/lib/os-node/node -e "require('https').get({host:'192.168.4.1',rejectUnauthorized:false},res=>console.log('page',res.statusCode))"
ip link set "$wire" up
`

/** The actions of the second radio: it opens the Wi-Fi that the page set. */
const OPEN = `
systemctl stop os-node-wifi@wlan1
printf 'network={\\n ssid="Garden"\\n mode=2\\n frequency=2437\\n key_mgmt=WPA-PSK\\n proto=RSN\\n pairwise=CCMP\\n psk="long enough"\\n}\\n' >/run/garden.conf
ip link set wlan1 up
wpa_supplicant -B -i wlan1 -c /run/garden.conf
`

/** Whether the Wi-Fi of the board is closed. */
export const closed = async (board: Board): Promise<boolean> =>
  (await board.shell('[ -e /run/os-node-access-point ] || echo closed')).text.trim() === 'closed'

/** The console and the card show the Wi-Fi that the board opened. */
export function noteAccessPoint(board: Board, said: string, fresh: string): void {
  const opened = /opens this Wi-Fi:\n+Wi-Fi: (os-node-[0-9a-f]{4})\nPassword: (\w{12})\n/.exec(said)
  assert.ok(opened, said.slice(-3000))
  const [, name, password] = opened
  assert.match(said, new RegExp(`open https://192\\.168\\.4\\.1/#/\\?token=${fresh}`))
  const label = board.read('os-node-label.txt')
  assert.match(label, new RegExp(`Wi-Fi: ${name}\nPassword: ${password}\n`))
}

async function joinAccessPoint(board: Board): Promise<void> {
  await board.shell(`cat >/run/join <<'END'\n${JOIN}END\nsetsid sh /run/join >/run/joined 2>&1 </dev/null & exit`)
  const joined = await until('the second radio', async () => {
    const { text } = await board.shell('cat /run/joined; ip -o link show up')
    return text.includes('page') ? text : null
  })
  assert.match(joined, /^lease 192\.168\.4\.\d+ 255\.255\.255\.0 router= dns=$/m)
  assert.match(joined, /^page 200$/m)
  await until('the access point to close', () => closed(board))
}

/** The page sets a Wi-Fi: the board restarts and joins it. */
async function setWifi(board: Board, token: string): Promise<void> {
  const { status, text } = await board.ask('/api/wifi', { token, post: { ssid: 'Garden', password: 'long enough' } })
  assert.equal(status, 200, text)
  await until('the restart', async () => (await board.shell('test -e /run/os-node-wifi.conf')).code === 0)
  assert.match(board.read('os-node.conf'), /^# by the page\nwifi_ssid=Garden\nwifi_password=long enough\n$/m)
  await board.shell(OPEN)
  await until('the Wi-Fi', async () => (await board.shell('cat /sys/class/net/wlan0/operstate')).text.trim() === 'up')
}

/** `token` opens the page. */
export async function useRadios(board: Board, token: string): Promise<void> {
  await joinAccessPoint(board)
  await setWifi(board, token)
}
