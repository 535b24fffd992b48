// The hardware watchdog, played by the kernel's softdog: pid 1 feeds it, and pid 1 (systemd; here its substitute) acts on the
// gateway's messages to NOTIFY_SOCKET. The gateway itself never opens the device. A machine whose gateway is alive stays up
// for many times the watchdog's time-out; when the gateway is frozen and is not restarted, the kernel restarts the machine:
// the rig then starts its command again, and this file sees the second boot.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { closeSync, existsSync, openSync, readdirSync, readlinkSync, writeFileSync, writeSync } from 'node:fs'
import { test } from 'node:test'
import { Machine, removeDir, sleep, tempDir, until } from '../lib/gateway'
import { runner, tool } from '../lib/rig'
import { FakeSystemd } from '../lib/systemd'

const INSIDE = 'OS_NODE_WATCHDOG_TEST'
/** longer than any delay of a busy machine */
const WATCHDOG_S = 10
/** a folder of this machine: survives the rig's kernel */
const MARK = '/run/rig/frozen'

/** WDIOC_SETTIMEOUT, and what the device makes of it; closed without the magic character it stays armed */
const ARM = `open(my $dog, ">", "/dev/watchdog") or die $!; my $s = pack("i", ${WATCHDOG_S});
  ioctl($dog, 0xC0045706, $s) or die $!; unpack("i", $s) == ${WATCHDOG_S} or die unpack("i", $s)`

/** Open files of a process. */
const filesOf = (pid: number): string[] =>
  readdirSync(`/proc/${pid}/fd`).flatMap(fd => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)]
    } catch {
      return [] // closed meanwhile
    }
  })

async function inside(): Promise<void> {
  if (existsSync(MARK)) {
    console.log('second boot')
    return
  }
  const systemd = await FakeSystemd.start('@pid1')
  const gateway = new Machine(tempDir(), 'run', { device_id: 'GW' })
  const usec = String(1_000_000)
  await systemd.env(() => gateway.start(['--port', '8100']), { WATCHDOG_USEC: usec })
  await systemd.next('READY')
  tool('perl', '-e', ARM)
  const dog = openSync('/dev/watchdog', 'w')
  const fed = new Set<unknown>()
  setInterval(() => {
    const news = systemd.with('WATCHDOG').filter(message => !fed.has(message))
    for (const message of news) fed.add(message)
    if (news.length > 0) writeSync(dog, '.')
  }, 100)
  const since = performance.now()
  await until('fed for long', () => performance.now() - since > WATCHDOG_S * 2000 && fed.size > 5)
  console.log(`fed ${fed.size > 5}, device opened by the gateway: ${filesOf(gateway.pid!).includes('/dev/watchdog')}`)
  writeFileSync(MARK, '')
  process.kill(gateway.pid!, 'SIGSTOP')
  await sleep(WATCHDOG_S * 10_000)
  console.log('the kernel lives on')
  closeSync(dog)
  process.exit(1)
}

if (process.env[INSIDE]) void inside()
else
  test('the machine stays up while its gateway is alive, and restarts when it is frozen', () => {
    const dir = tempDir()
    try {
      const ran = spawnSync(runner[0], [...runner.slice(1), process.execPath, process.argv[1]!], {
        encoding: 'utf8',
        env: { ...process.env, [INSIDE]: '1', OS_NODE_IN_RIG: '1', RIG_TIMEOUT: '400', RIG_MEM: '768M', TMPDIR: dir },
      })
      assert.equal(ran.stdout, 'fed true, device opened by the gateway: false\nsecond boot\n', ran.stderr)
      assert.equal(ran.status, 0, ran.stderr)
    } finally {
      removeDir(dir)
    }
  })
