// The kernel module that requests a trial from the firmware: compiled for the kernel of the image, loaded there on an emulated Raspberry Pi 3. The
// emulator does not know the flag, so its log shows the module's requests: the tag that reads the flags, and after an ordered restart the one that
// sets them.
// Needs: image boards
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root, tempDir, until } from '../lib/gateway'

interface Modules {
  baseSystem(root: string, say: (line: string) => void): string
  makeTryboot(root: string, options: object): Uint8Array
  cpio(entries: [string, number, (string | Uint8Array)?, [number, number]?][]): Buffer
}

const load = async (name: string): Promise<Modules> => (await import(join(root, 'src/build/image', name))) as Modules
const say = (): void => {}
const READ = 'unhandled tag 0x00030064'
const SET = 'unhandled tag 0x00038064'

/** The output of console and emulator log of a board that loads the module, runs `script` and restarts. */
async function run(dir: string, module: Uint8Array, script: string): Promise<{ console: string; log: string }> {
  const base = (await load('system.mjs')).baseSystem(root, say)
  const init = `#!/bin/busybox sh
/bin/busybox mount -t sysfs sys /sys
/bin/busybox insmod /os_node_tryboot.ko
cd /sys/module/os_node_tryboot/parameters
${script}
echo "known $(/bin/busybox cat known) armed $(/bin/busybox cat armed)"
/bin/busybox reboot -f
`
  const archive = (await load('initramfs.mjs')).cpio([
    ...['bin', 'dev', 'sys'].map((name): [string, number] => [name, 0o040755]),
    ['dev/console', 0o020600, '', [5, 1]],
    ['init', 0o100755, init],
    ['bin/busybox', 0o100755, readFileSync(join(base, 'usr/bin/busybox'))],
    ['os_node_tryboot.ko', 0o100644, module],
  ])
  const [release] = readdirSync(join(base, 'usr/lib/modules'))
  writeFileSync(join(dir, 'initramfs'), archive)
  const kernel = join(base, 'boot', `vmlinuz-${release}`)
  const tree = join(base, 'usr/lib', `linux-image-${release}`, 'broadcom/bcm2837-rpi-3-b.dtb')
  const machine = ['-M', 'raspi3b', '-accel', 'tcg,thread=single', '-no-reboot', '-display', 'none']
  const system = [
    '-kernel',
    kernel,
    '-dtb',
    tree,
    '-initrd',
    join(dir, 'initramfs'),
    '-append',
    'console=ttyS1,115200 quiet loglevel=7',
  ]
  const logs = ['-serial', 'null', '-serial', 'stdio', '-d', 'unimp', '-D', join(dir, 'log')]
  const child = spawn('qemu-system-aarch64', [...machine, ...system, ...logs], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.on('data', chunk => (text += chunk))
  try {
    // the module of the watchdog, which restarts the board, is not loaded: the board halts
    await until('the restart', () => /reboot: Restarting system/.test(text), 300_000)
  } finally {
    child.kill('SIGKILL')
  }
  return { console: text.replaceAll('\r', ''), log: readFileSync(join(dir, 'log'), 'utf8') }
}

test('the module fits the kernel of the image, and an ordered restart requests a trial only if it is armed', async () => {
  const base = (await load('system.mjs')).baseSystem(root, say)
  const [release] = readdirSync(join(base, 'usr/lib/modules'))
  const module = (await load('tryboot.mjs')).makeTryboot(root, { release, say })
  const dir = tempDir()
  writeFileSync(join(dir, 'os_node_tryboot.ko'), module)
  const about = execFileSync('modinfo', [join(dir, 'os_node_tryboot.ko')], { encoding: 'utf8' })
  assert.match(about, new RegExp(`vermagic:\\s+${release!.replaceAll('+', '\\+')} `))
  const ordinary = await run(dir, module, '')
  // the emulator leaves the value unchanged, like firmware that does not know the flag
  assert.match(ordinary.console, /known N armed N/)
  assert.ok(ordinary.log.includes(READ) && !ordinary.log.includes(SET), ordinary.log)
  const armed = await run(dir, module, 'echo Y >armed')
  assert.match(armed.console, /known N armed Y/)
  assert.ok(armed.log.includes(SET), armed.log)
})
