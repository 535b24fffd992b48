// Every command in README and the pages is run as written, by a shell, one after the other, on a gateway of the built file. A
// command that a plain machine cannot run is listed with the reason and the file that runs it; an entry that matches no command,
// and one whose file lacks its words, is an error.
// Needs: curl openssl
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freePort, freeUdpPort, Machine, removeDir, root, script, tempDir, until } from '../lib/gateway'

const dir = tempDir()
const bin = join(dir, 'bin')
let gateway: Machine
let port: number

/**
 * Commands that are not run here: why, the file that runs or defines them, and words of that file; without words, it must have
 * every option of the command.
 */
const NOT_RUN: readonly [line: RegExp, reason: string, file: string, words?: string][] = [
  [/^git clone /, 'downloads', 'test/net/native/start.long.test.ts', 'in a fresh clone'],
  [/^npm start$/, 'installs and builds', 'test/net/native/start.long.test.ts', "spawn('npm', ['start'"],
  [/^npm start -- --lan$/, 'opens a page to the network', 'test/interop/commands.test.ts', "run('run', '--lan')"],
  [/^npm test$|^bash \.ci\/run$/, 'runs all tests', '.ci/run', 'npm test --silent'],
  [/^npm run test:unit$/, 'runs a group of tests', 'test/run.mjs', 'GROUPS'],
  [/^npm run test:long$/, 'an hour', '.ci/run', 'npm run --silent test:long'],
  [/^npm run test:kills$/, 'minutes', 'test/crash/gateway-kill.long.test.ts', 'OS_NODE_KILLS'],
  [/^npm run test:image$/, 'hours', 'test/image/sizes.long.test.ts', 'npm run test:image'],
  [
    /^npm run test:sim -- (?!--help|--variant list)/,
    'minutes; test/crash/simulated.test.ts runs seeds',
    'test/sim/run.mjs',
  ],
  [/^npm run mutants /, 'minutes', 'test/mutants.mjs'],
  [/^npm run bench( |$)/, 'minutes; .ci/run measures what does not depend on the machine', 'bench/run.mjs'],
  [/^node test\/run\.mjs /, 'runs tests, and is refused while tests run', 'test/run.mjs'],
  [/^npm run build$/, 'changes what this test runs', 'test/run.mjs', "'build.mjs', '--install'"],
  [/^npm run check$/, 'minutes', '.ci/run', 'npm run --silent check'],
  [/^npm run format$/, 'changes the files of the repository', 'package.json', 'biome check --write'],
  [/^npm run deb$/, 'minutes', 'test/interop/deb.long.test.ts', 'makePackages'],
  [/^npm run release /, 'builds everything', 'test/interop/release.long.test.ts', 'makeRelease'],
  [/^npm run image -- --board rpi-4$/, 'minutes', 'test/image/sizes.long.test.ts', 'makeImage'],
  [/^npm run image -- .*--sign /, 'minutes', 'test/image/shared-image.ts', "'genpkey', '-algorithm', 'ed25519'"],
  [/^npm run image -- .*--firmware /, 'minutes', 'test/image/firmware.test.ts', 'addFirmware'],
  [/^npm run image -- .*--overlays /, 'minutes', 'test/image/overlays.long.test.ts', 'makeOverlays'],
  [/^npm run image -- .*--kernel /, 'minutes', 'test/image/kernel.test.ts', 'makeImage'],
  [/^os-node update /, 'only the SD image has slots', 'test/image/boot.long.test.ts', 'board.shell(`os-node update'],
  [/^os-node slots$/, 'only the SD image has slots', 'test/image/updates.long.test.ts', 'os-node slots'],
  [
    /^curl -k .*os-node\.local\/api\/update /,
    'asks a board',
    'test/image/boot.long.test.ts',
    "'/api/update', { token, post",
  ],
  [/^sudo os-node flash /, 'writes a card', 'test/net/flash.test.ts', 'flash({ device'],
  [/^lsblk /, 'lists the disks of this machine', 'test/interop/commands.test.ts', "alone.json('flash')"],
  [/^xz -dc /, 'writes a card', 'test/image/sizes.long.test.ts', '.xz'],
  [
    /^os-node safe-mode --leave$/,
    'refused outside safe mode',
    'test/crash/safe-mode.test.ts',
    "'safe-mode', '--leave'",
  ],
  [
    /^os-node plugin-test( --suite component)?$/,
    'minutes',
    'test/unit/services/test-plugin/runner.test.ts',
    "run('plugin-test', '--total', '20'",
  ],
  [
    / --suite integration$/,
    'runs elsewhere',
    'test/interop/test-plugin.test.ts',
    "'plugin-test', '--suite', 'integration'",
  ],
  [
    / --suite (stress|full_load)/,
    'minutes',
    'test/unit/services/test-plugin/runner.test.ts',
    "'--suite', 'full_load', '--chain-mode'",
  ],
  [/ --suite compare$/, 'minutes', 'test/unit/services/test-plugin/runner.test.ts', '.compare()'],
  [/ --suite audit$/, 'loads every part', 'test/unit/services/test-plugin/audit/audit.test.ts', 'audit'],
  [/^os-node gpio$/, 'needs GPIO lines', 'test/rig/gpio-gateway.test.ts', "machine.ask('gpio')"],
  [/^os-node gpio set pump 1$/, 'needs GPIO lines', 'test/rig/gpio-gateway.test.ts', "'gpio', 'set', 'pump', '1'"],
  [
    /^os-node source test shed$/,
    'needs GPIO lines',
    'test/rig/gpio-gateway.test.ts',
    "'source test', { name: 'shed' }",
  ],
  [/^os-node transmit --medium UART /, 'needs a serial port', 'test/interop/serial.test.ts', "'--medium', 'UART'"],
  [/^set -e\n.*mosquitto_passwd/s, 'needs a broker', 'test/net/deploy.test.ts', "block('sh', 'mosquitto_passwd')"],
  [/^sudo apt-get install /, 'installs the package', 'test/lib/debian.ts', "inside('dpkg', '-i'"],
  [/^(sudo )?systemctl /, 'changes services of the system', 'test/image/boot.long.test.ts', 'systemctl'],
  [/^systemd-analyze /, 'needs the installed unit', 'test/interop/systemd.test.ts', "'security', '--offline=true'"],
  [/^sudo (cp -r rootfs|sysctl )/, 'changes the system', 'test/rig/can-busoff.long.test.ts', 'os-node-can@'],
  [/^ldattach /, 'needs a serial port', 'test/rig/slip.test.ts', "'ldattach', '-8', '-n', '-1', 'SLIP'"],
  [
    /^ip addr add /,
    'needs the line of ldattach',
    'test/rig/slip.test.ts',
    "'ip', 'addr', 'add', THEIRS, 'peer', OURS, 'dev', 'sl0'",
  ],
  [
    /^ip link set /,
    'needs the line of ldattach',
    'test/rig/slip.test.ts',
    "'ip', 'link', 'set', 'sl0', 'up', 'mtu', '296'",
  ],
  [/^ping /, 'needs the line of ldattach', 'test/rig/slip.test.ts', "'busybox', 'ping'"],
  [/^rfkill /, 'changes the radio of this machine', 'test/image/imager.test.ts', '[ rfkill, unblock'],
]

/** Commands that run until they are stopped: here until this output, and then Ctrl-C. */
const UNTIL_STOPPED: readonly [line: RegExp, output: RegExp][] = [
  [/^os-node watch /, /\n/],
  [/^os-node serve /, /os-node \S+ serve: /],
]

/** First words of a command; other blocks without a language are output or configuration. */
const COMMAND =
  /^(?:npx )?(?:os-node(?! \d)|npm|node|git|cd|curl|bash|source|mkdir|cp|echo|tar|ip|systemctl|sudo|apt|apt-get|docker|ldattach|lsblk|mosquitto_passwd|openssl|ping|rfkill|systemd-analyze|xz)(?= |$)/m

/** The commands of a page: of its fences in sh every line, and of an indented block with a command, too; a script is one. */
function commandsOf(page: string): string[] {
  const text = readFileSync(join(root, page), 'utf8')
  const blocks: string[] = []
  const rest = text.replace(/^```(.*)\n([\s\S]*?)^```$/gm, (_, language: string, block: string) => {
    if (language === 'sh') blocks.push(block)
    else if (language === '') assert.doesNotMatch(block, COMMAND, `${page}: a block of commands without sh`)
    return ''
  })
  for (const [block] of rest.matchAll(/(?:^ {4,}\S.*\n)+/gm)) {
    const lines = block.replace(/^ +/gm, '')
    if (COMMAND.test(lines)) blocks.push(lines)
  }
  return blocks.flatMap(block =>
    block.startsWith('set -e\n')
      ? [block]
      : block
          .replace(/ *\\\n */g, ' ')
          .split('\n')
          .filter(Boolean)
          .map(line => line.replace(/ +# .*/, '').replace(/^npx /, '')),
  )
}

const pages = [
  ...readdirSync(root).filter(name => name.endsWith('.md')),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).flatMap(name =>
    name.endsWith('.md') ? [`docs/${name}`] : [],
  ),
]
const commands = pages.flatMap(page => commandsOf(page).map(line => ({ page, line })))

const env = {
  ...process.env,
  OS_NODE_CONFIG: '',
  OS_NODE_DATA_DIR: '',
  PATH: `${bin}:${process.env.PATH}`,
  HOME: dir,
  CURL_HOME: dir,
  TOKEN: '',
}

/** What differs from the page: the port, a file of root's, and sudo. */
const adapted = (line: string): string =>
  line
    .replaceAll('127.0.0.1:8765', `127.0.0.1:${port}`)
    .replace('/root/passphrase', join(dir, 'passphrase'))
    .replace(/^sudo os-node /, 'os-node ')

function run(line: string, cwd = gateway.dir): { code: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync('bash', ['-c', adapted(line)], {
    cwd: line.startsWith('npm ') ? root : cwd,
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
  })
  return { code: status, stdout, stderr }
}

/** Runs a command until it printed that, stops it like Ctrl-C, and returns its exit code. */
async function runUntil(line: string, printed: RegExp): Promise<number | null> {
  // a gateway of its own does not fit into the folder of the other
  const own = join(dir, 'own')
  mkdirSync(own, { recursive: true })
  const child = spawn('bash', ['-c', line], {
    cwd: line.includes(' serve ') ? own : gateway.dir,
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  })
  let text = ''
  child.stdout.on('data', chunk => {
    text += chunk
  })
  const ended = new Promise<number | null>(resolve => child.once('exit', resolve))
  try {
    await until(`output of ${line}`, () => printed.test(text) || child.exitCode !== null, 60_000)
    process.kill(-child.pid!, 'SIGINT')
    return await ended
  } finally {
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, 'SIGKILL')
  }
}

before(async () => {
  port = await freePort()
  mkdirSync(join(dir, 'plugins'))
  copyFileSync(join(root, 'docs/examples/garden.mjs'), join(dir, 'plugins/garden.mjs'))
  gateway = new Machine(join(dir, 'gateway'), 'run', {
    device_id: 'gw',
    assigned_id: 7,
    gateway: {
      sources: [{ name: 'uptime', type: 'uptime' }],
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: 9, delivery: 'best_effort' }],
    },
    plugins: { enabled: true, dir: join(dir, 'plugins') },
    RESOURCES: { service_plugins: { web_user: { port } } },
  })
  mkdirSync(bin)
  const program = `#!/bin/sh\nexec '${process.execPath}' '${script}' "$@"\n`
  writeFileSync(join(bin, 'os-node'), program, { mode: 0o755 })
  writeFileSync(join(bin, 'npx'), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 })
  // an HTTP error is an exit code, and no proxy is used
  writeFileSync(join(dir, '.curlrc'), 'fail-with-body\nnoproxy = "*"\n')
  writeFileSync(join(dir, 'passphrase'), 'correct horse battery\n')
  // what a reader of CONTRIBUTING has downloaded: one file of a release
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  writeFileSync(join(gateway.dir, 'os-node.deb'), 'package')
  const sums = `${createHash('sha256').update('package').digest('hex')}  os-node.deb\n${'0'.repeat(64)}  os-node.tgz\n`
  writeFileSync(join(gateway.dir, 'SHA256SUMS'), sums)
  writeFileSync(join(gateway.dir, 'SHA256SUMS.sig'), sign(null, Buffer.from(sums), privateKey))
  writeFileSync(join(gateway.dir, 'release.pub'), publicKey.export({ type: 'spki', format: 'pem' }))
  await gateway.start([], port)
  await until('the example plugin runs', () =>
    gateway
      .json('plugin-list')
      .items.some((item: { name: string; running: boolean }) => item.name === 'garden' && item.running),
  )
})
after(async () => {
  await gateway?.stop()
  removeDir(dir)
})

const listedAs = (line: string) => NOT_RUN.find(([pattern]) => pattern.test(line))

test('every command of the pages runs, or is listed with the reason and the file that runs it', async t => {
  const toRun = commands.filter(({ line }) => !listedAs(line))
  for (const { page, line } of toRun) {
    const what = `${page}: ${line}`
    const stopped = UNTIL_STOPPED.find(([pattern]) => pattern.test(line))
    if (stopped) {
      const ports = line
        .replace('--port 8080', `--port ${await freeUdpPort()}`)
        .replace(' 8765', ` ${await freePort()}`)
      assert.equal(await runUntil(ports, stopped[1]), 0, what)
      continue
    }
    // no gateway may run on the data that is restored
    const restores = line.startsWith('os-node restore ')
    if (restores) await gateway.stop()
    // `token --new` among the commands makes another one
    if (line.includes('$TOKEN')) env.TOKEN = gateway.json('token', '--new').token
    const { code, stdout, stderr } = run(line)
    // doctor: 1 if this machine has a problem
    assert.ok(
      code === 0 || (line === 'os-node doctor' && code === 1),
      `${what}: ${code} ${stdout.slice(-500)} ${stderr}`,
    )
    if (line.startsWith('curl ')) {
      assert.notEqual(stdout, '', what)
      assert.doesNotMatch(stdout, /"ok": ?false/, what)
    }
    if (restores) await gateway.start([], port)
  }
  t.diagnostic(`${toRun.length} of ${commands.length} commands were run`)
  assert.ok(toRun.length > 40)
})

test('the files of commands that are not run here run them', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  for (const { page, line } of commands) {
    const name = /^npm run (\S+)/.exec(line)?.[1]
    if (name) assert.ok(scripts[name], `${page}: ${line}: package.json has no script ${name}`)
    const [, , file, words] = listedAs(line) ?? []
    if (!file) continue
    const text = readFileSync(join(root, file), 'utf8')
    for (const word of words ? [words] : (line.match(/ --\w[\w-]*/g) ?? []))
      assert.ok(text.includes(word.trim()), `${page}: ${line}: ${file} lacks ${word}`)
  }
  assert.deepEqual(
    NOT_RUN.flatMap(([pattern]) => (commands.some(({ line }) => pattern.test(line)) ? [] : [`${pattern}`])),
    [],
    'entries that match no command',
  )
})
