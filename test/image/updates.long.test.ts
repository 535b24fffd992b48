// Updates without a command: a USB stick that is plugged into the running board, and the schedule of os-node.conf. An older version is
// refused, and a rolled-back one is not tried again. `npm run test:image`.
// Only: npm run test:image
// Needs: x64 boards debs image sshd
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, renameSync, truncateSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { BOOT_MS, Board, MIB, until } from './board'

// the time-out of a test with many starts; only in npm run test:image
const board = new Board()
const at = (name: string): string => join(board.place, name)
after(() => board.remove())

/** A stick with `files` and one FAT partition, as sold. */
function fatStick(name: string, files: readonly string[]): void {
  const part = `${at(name)}@@${MIB}`
  writeFileSync(at(name), '')
  truncateSync(at(name), 400 * MIB)
  execFileSync('sfdisk', ['--quiet', at(name)], { input: 'start=1MiB, type=c', stdio: 'pipe' })
  execFileSync('mformat', ['-F', '-T', String((399 * MIB) / 512), '-h', '64', '-s', '32', '-i', part, '::'])
  for (const file of files) execFileSync('mcopy', ['-i', part, at(file), '::'])
}

/** A stick without a partition table, whose file system asks the kernel to panic on errors. */
function ext4Stick(name: string, files: readonly string[]): void {
  const folder = at(`${name}-files`)
  mkdirSync(folder)
  for (const file of files) copyFileSync(at(file), join(folder, file))
  execFileSync('mke2fs', ['-q', '-t', 'ext4', '-e', 'panic', '-d', folder, at(name), '400M'])
}

const tell = (command: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const socket = connect(at('monitor')).once('error', reject)
    let text = ''
    socket.on('data', chunk => {
      text += chunk
      if ((text.match(/\(qemu\) /g) ?? []).length === 1 && !text.includes(command)) socket.write(`${command}\n`)
      else if (/\(qemu\) $/.test(text) && text.includes('\n')) socket.end(resolve)
    })
  })

test('a stick with an older update changes nothing, one with a newer is installed; the schedule finds the next', async t => {
  const { url, server } = await board.serve([])
  t.after(() => server.close())
  // all day except an hour that is far away
  const hour = (ahead: number): string => String((new Date().getUTCHours() + ahead) % 24).padStart(2, '0')
  const time = `${hour(13)}:00-${hour(12)}:00`
  const conf = `hostname=greenhouse-1\nupdate_url=${url}/next.update\nupdate_time=${time}\n`
  await board.make(conf, '20min')
  const older = board.update('1.2.2')
  fatStick('older', [older])
  ext4Stick('newer', [older, board.update('1.2.4')])
  copyFileSync(at(board.update('1.2.3')), at('next.update'))
  copyFileSync(board.image, at('second'))
  board.extra = [
    ...['-device', 'qemu-xhci,id=usb', '-monitor', `unix:${at('monitor')},server=on,wait=off`],
    ...['older', 'newer', 'second'].flatMap(name => [
      '-drive',
      `if=none,id=${name},file=${at(name)},format=raw,readonly=on`,
    ]),
  ]
  const plug = (name: string) => tell(`device_add usb-storage,bus=usb.0,drive=${name},id=stick-${name}`)
  const power = board.power()
  t.after(power.cut)
  /** The board has started so often, and answers. */
  const started = async (times: number): Promise<void> => {
    const starts = () => power.said().match(/^os-node: boot partition \d$/gm)?.length ?? 0
    await until(`start ${times}`, () => starts() >= times, 2 * BOOT_MS)
    await until('the page of the board', () => board.health(), 2 * BOOT_MS)
  }
  const look = async (): Promise<string> => {
    const { text } = await board.shell('systemctl start os-node-fetch; os-node slots')
    return /^last check: .*/m.exec(text)?.[0] ?? text
  }

  await started(1)
  const timers = await board.shell('systemctl list-timers --no-legend os-node-fetch.timer; os-node slots')
  assert.match(timers.text, /os-node-fetch\.service/)
  assert.match(
    timers.text,
    /^checks for updates: every day \d\d:00-\d\d:00 UTC, http:\/\/10\.0\.2\.2:\d+\/next\.update$/m,
  )
  assert.match(await look(), /next\.update: up to date$/)

  await plug('older')
  const refusal = new RegExp(
    `USB stick: not installed: ${older}: the update has version 1\\.2\\.2, this board runs 1\\.2\\.3`,
  )
  await until('the refusal', () => refusal.test(power.said()))
  const { slots, last_check: refused } = await board.slots(() => true)
  assert.deepEqual([refused!.source, refused!.result], ['USB stick', 'refused'])
  assert.deepEqual(slots[1], { slot: 'B', version: null, running: false, state: 'empty' })
  assert.match((await board.shell('mount')).text, /^(?!.*os-node-stick)/s)
  await tell('device_del stick-older')

  // another card of os-node in a reader: the board keeps the links to its own
  await plug('second')
  const settled =
    'udevadm settle; ls /dev/sd?7; for link in /dev/disk/by-partuuid/6f736e64-0?; do readlink -f $link; done'
  const devices = await until('the second card', async () => {
    const { text: shown } = await board.shell(settled)
    return /^\/dev\/sd.7$/m.test(shown) ? shown.replace(/^.*\n/, '').trim().split('\n') : null
  })
  assert.ok(devices.length >= 6)
  for (const device of devices) assert.match(device, /^\/dev\/vda\d$/)

  await plug('newer')
  await until('the update', () => /1\.2\.4 is installed: the board restarts/.test(power.said()))
  await started(2)
  const { last_check: installed } = await board.slots(({ last_update: last }) => last?.outcome === 'confirmed')
  // the stick is still plugged in, and its update runs
  assert.deepEqual([installed!.source, installed!.result], ['USB stick, os-node-qemu-virt-1.2.4.update', 'installed'])

  renameSync(at(board.update('1.2.5', ['ro quiet loglevel=4', 'rdinit=/nothing qu '])), at('next.update'))
  await board.shell('systemctl start os-node-fetch')
  // the trial, and the start after it
  await started(4)
  const { slots: back } = await board.slots(({ last_update: last }) => last?.outcome === 'rolled back')
  assert.deepEqual(
    back.filter(({ running }) => running),
    [{ slot: 'B', version: '1.2.4', running: true, state: 'active' }],
  )
  assert.match(await look(), /next\.update: refused, 1\.2\.5 was tried on this board and rolled back; /)

  // an uplink of os-node.conf, as a first start applies it
  const again = 'systemctl restart os-node-uplink; cat /etc/os-node/Config.json'
  const first = `printf udp://192.0.2.10:8080 >/run/os-node-uplink; ${again}`
  const { text } = await board.shell(`${first}; ls -l /etc/os-node/Config.json; cat /data/uplink`)
  assert.match(text, /^-rw\S* +\d+ os-node +os-node /m)
  assert.match(text, /"name": "card",\s+"medium": "UDP",\s+"host": "192\.0\.2\.10",\s+"port": 8080/)
  assert.match(text, /udp:\/\/192\.0\.2\.10:8080$/m)
  // what the owner changes afterwards stays over a start
  const changed = await board.shell(`sed -i s/192.0.2.10/192.0.2.11/ /etc/os-node/Config.json; ${again}`)
  assert.match(changed.text, /"host": "192\.0\.2\.11"/)
})
