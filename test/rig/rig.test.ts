// The rig itself, seen from this machine: input, output, and that nothing of it is left behind.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { removeDir, root, tempDir, until } from '../lib/gateway'
import { runner } from '../lib/rig'

interface Ran {
  status: number | null
  stdout: string
  stderr: string
}

const rig = (command: readonly string[], env: Record<string, string> = {}, cwd = process.cwd()): Ran =>
  spawnSync(runner[0], [...runner.slice(1), ...command], { encoding: 'latin1', env: { ...process.env, ...env }, cwd })

/** Processes of this machine with `text` in their command line. */
const running = (text: string): string[] =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .filter(pid => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text)
      } catch {
        return false // it has just exited
      }
    })

test('output, errors, exit status, arguments, folder and environment are those of the command', () => {
  const dir = tempDir()
  try {
    const script = 'printf "%s|" "$@" "$WORD" "$PWD"; echo wrong >&2; exit 7'
    const ran = rig(['sh', '-c', script, 'sh', 'a b', "c'd", ''], { WORD: 'two\nlines' }, dir)
    assert.deepEqual(ran, { ...ran, status: 7, stdout: `a b|c'd||two\nlines|${dir}|`, stderr: 'wrong\n' })
  } finally {
    removeDir(dir)
  }
})

test('the rig has a separate kernel, in which the command is root and its writes are discarded', () => {
  const file = join(process.cwd(), '.build', 'written-in-the-rig')
  const ran = rig(['sh', '-c', `uname -r; id -u; echo x >${file} && cat ${file}`])
  assert.match(ran.stdout, /^6\.12\.\d+\n0\nx\n$/)
  assert.equal(existsSync(file), false)
})

test('every byte of output arrives', () => {
  const script = 'process.stdout.write(Buffer.from(Array.from({ length: 500000 }, (_, k) => (k * 7) & 255)))'
  const { stdout } = rig([process.execPath, '-e', script])
  assert.equal(stdout.length, 500_000)
  assert.ok(Buffer.from(stdout, 'latin1').every((byte, k) => byte === ((k * 7) & 255)))
})

test('networks can be made bad and CAN buses be created', () => {
  const ran = rig([
    'sh',
    '-ec',
    'ip link add near type veth peer name away; tc qdisc add dev near root handle 1: netem delay 5ms loss 10%;' +
      'tc qdisc add dev near parent 1: tbf rate 64kbit burst 2k latency 1s; tc qdisc show dev near;' +
      'ip link add vcan0 type vcan; ip link set vcan0 up; ip -br link show vcan0; ip netns add other',
  ])
  assert.equal(ran.status, 0, ran.stderr)
  assert.match(ran.stdout, /netem[\s\S]*tbf[\s\S]*vcan0 +UNKNOWN/)
})

test('a command that hangs is killed in time, and that is reported', () => {
  const ran = rig(['sleep', '1000'], { RIG_TIMEOUT: '2' })
  assert.deepEqual([ran.status, ran.stderr], [124, 'rig: killed after 2 s (RIG_TIMEOUT)\n'])
})

for (const signal of ['SIGTERM', 'SIGKILL'] as const)
  test(`no kernel and no file is left when the runner ends by ${signal}`, async () => {
    const dir = tempDir() // the kernel gets it as an argument, so it is found by it
    try {
      const child = spawn(runner[0], [...runner.slice(1), 'sh', '-c', 'echo up; sleep 1000'], {
        env: { ...process.env, TMPDIR: dir },
      })
      await new Promise(resolve => child.stdout.once('data', resolve))
      assert.ok(running(`uml_dir=${dir}`).length > 0)
      child.kill(signal)
      // a runner killed by SIGKILL cannot clean up; the next runner does
      if (signal === 'SIGKILL') {
        await until('it has ended', () => child.signalCode !== null)
        rig(['true'], { TMPDIR: dir })
      }
      await until('the kernel ends', () => running(`uml_dir=${dir}`).length === 0)
      await until('its files are gone', () => readdirSync(dir).length === 0)
    } finally {
      removeDir(dir)
    }
  })

test('a kernel that does not boot, and a missing one, are reported in one line', () => {
  const broken = rig(['true'], { RIG_KERNEL: '/bin/true' })
  assert.equal(broken.status, 125)
  assert.match(broken.stderr, /^rig: the kernel ended \(0\) before the command did/)
  const none = rig(['true'], { RIG_KERNEL: '/no/such/kernel' })
  assert.deepEqual([none.status, none.stderr], [1, 'rig: RIG_KERNEL names no file: /no/such/kernel\n'])
})

test('the kernel is the one that is named, otherwise one built before; otherwise the message says how to build one', () => {
  const dir = tempDir()
  try {
    const here = join(dir, 'repository/test/rig')
    mkdirSync(here, { recursive: true })
    for (const name of ['run', 'kernel.config', 'xstate.c'])
      copyFileSync(join(root, 'test/rig', name), join(here, name))
    const env = { ...process.env, XDG_CACHE_HOME: join(dir, 'cache'), RIG_KERNEL: '' }
    const ask = (...words: string[]): Ran => spawnSync(join(here, 'run'), words, { encoding: 'latin1', env })
    const none = ask('--check')
    assert.equal(none.status, 1)
    assert.match(none.stderr, /^rig: has no kernel: .*build one \(about 15 minutes\): test\/rig\/build-kernel\n$/)
    // a kernel that prints its name, and no more
    const fake = (place: string): void => {
      mkdirSync(place, { recursive: true })
      writeFileSync(join(place, 'linux'), `#!/bin/sh\necho I am ${place}\n`, { mode: 0o755 })
    }
    const sum = /\d+/.exec(spawnSync('cksum', { input: readFileSync(join(here, 'kernel.config')) }).stdout.toString())
    const built = join(dir, `cache/os-node-rig/built-${sum}`)
    fake(built)
    assert.equal(ask('--check').status, 0)
    assert.match(ask('true').stderr, new RegExp(`I am ${built}\n`))
    const named = join(dir, 'named')
    fake(named)
    spawnSync('xz', [join(named, 'linux')])
    env.RIG_KERNEL = join(named, 'linux.xz')
    assert.match(ask('true').stderr, new RegExp(`I am ${named}\n`))
  } finally {
    removeDir(dir)
  }
})
