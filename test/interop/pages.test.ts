// Every command in README and the pages is run as written, one after the other, on a gateway of the built file. Commands that a
// plain machine cannot run are listed with the reason, and an entry that matches no command is an error.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { cli, freePort, Machine, removeDir, root, tempDir } from '../lib/gateway'

const dir = tempDir()
let gateway: Machine

/** A command line → why it is not run here. Other tests run most of them. */
const NOT_RUN: readonly [line: RegExp, reason: string][] = [
  [/^(git clone|npm start$)/, 'test/net/native/start.long.test.ts does both, in a fresh clone'],
  [/^npm start -- --lan$/, 'opens a page to the network; test/interop/commands.test.ts runs `run --lan`'],
  [
    /^npm test$|^npm run (test|mutants|bench)|^bash \.ci\/run$/,
    'these are the installation, the tests and the measurements',
  ],
  [/^npm run (check|format)$/, 'CI runs the check; the formatter changes files'],
  [/^npm run deb$/, 'test/interop/deb.long.test.ts makes the packages'],
  [/^npm run release /, 'builds all of it, images too; test/interop/release.long.test.ts makes a small one'],
  [/^npm run image -- --board /, 'minutes; test/image/boot.long.test.ts makes an image and boots it'],
  [/^os-node (update |slots)/, 'only the SD image has slots; test/image/boot.long.test.ts updates a board'],
  [
    /^(sudo )?os-node flash/,
    'writes a card; test/unit/update/flash.test.ts and test/net/flash.test.ts write files and a block device',
  ],
  [/^npm run build$|^node test\/run\.mjs /, 'this test runs in what they made'],
  [/^curl /, 'needs the token of the reader; test/interop/http.test.ts asks every route'],
  [/^os-node serve /, 'runs until it is stopped; the tests of uplinks start it'],
  [/^os-node doctor$/, 'its exit code tells of the machine; test/unit/commands/doctor.test.ts'],
  [/^os-node watch /, 'runs until it is stopped; test/unit/commands/verbs/watch.test.ts'],
  [/^source </, 'a line for a shell; test/interop/shells.test.ts types it'],
  [/^os-node safe-mode --leave$/, 'refused outside safe mode; test/crash/safe-mode.test.ts leaves it'],
  [/^os-node tui render garden:beds/, 'needs the example plugin; test/interop/plugin-example.test.ts'],
  [/^os-node plugin-test/, 'minutes; test/unit/services/test-plugin/runner.test.ts runs the suites'],
  [/^os-node gpio/, 'needs GPIO lines; test/rig/gpio-gateway.test.ts'],
  [/^os-node source test shed$/, 'needs a sensor; test/interop/gateway.test.ts tests a source'],
  [/^os-node transmit --medium UART /, 'needs a serial port; test/interop/serial.test.ts'],
  [/^os-node (backup .*--passphrase-file|restore) /, 'needs a passphrase, and no gateway; test/interop/backup.test.ts'],
  [/^openssl genpkey /, 'makes a key; test/image/shared-image.ts makes one this way, and signs with it'],
  [/^openssl pkeyutl /, 'checks a release; test/interop/release.long.test.ts checks one this way'],
  [/^systemd-analyze /, 'needs the installed unit; test/interop/systemd.test.ts has its figure'],
  [/^(lsblk|xz) /, 'writes a card; test/image/sizes.long.test.ts unpacks an image'],
  [/^(ldattach|ping|rfkill) /, 'needs an adapter; test/rig/slip.test.ts has a line with ldattach'],
  [/^(ip|systemctl|sudo) /, 'changes the system; test/rig, and test/unit/config/config-examples.test.ts for the files'],
]

/** First words of a command line; lines of output and of configuration start otherwise. */
const COMMAND =
  /^(?:npx )?(?:os-node (?!\d)|(?:npm|node|git|curl|bash|source|ip|systemctl|sudo|apt|apt-get|docker|ldattach|lsblk|openssl|ping|rfkill|systemd-analyze|xz) )/

function commandsOf(page: string): string[] {
  let fence: string | undefined
  return readFileSync(join(root, page), 'utf8')
    .split('\n')
    .flatMap(line => {
      const mark = /^\s*```(\w*)/.exec(line)
      if (mark) fence = fence === undefined ? mark[1] : undefined
      const code =
        fence === undefined ? /^ {4,}(\S.*)/.exec(line)?.[1] : fence === '' || fence === 'sh' ? line : undefined
      // a remark follows two blanks
      return !mark && code && COMMAND.test(code)
        ? [
            code
              .split(/ {2,}| # /)[0]!
              .replace('npx ', '')
              .trim(),
          ]
        : []
    })
}

const pages = [
  ...readdirSync(root).filter(name => name.endsWith('.md')),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).flatMap(name =>
    name.endsWith('.md') ? [`docs/${name}`] : [],
  ),
]
const commands = pages.flatMap(page => commandsOf(page).map(line => ({ page, line })))

before(async () => {
  const port = await freePort()
  gateway = new Machine(dir, 'run', {
    device_id: 'gw',
    assigned_id: 7,
    gateway: {
      sources: [{ name: 'uptime', type: 'uptime' }],
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: 9, delivery: 'best_effort' }],
    },
    RESOURCES: { service_plugins: { web_user: { port } } },
  })
  await gateway.start([], port)
})
after(async () => {
  await gateway?.stop()
  removeDir(dir)
})

test('every command of the pages runs, or is listed with the reason', t => {
  const used = new Set<RegExp>()
  let ran = 0
  for (const { page, line } of commands) {
    const listed = NOT_RUN.find(([pattern]) => pattern.test(line))
    if (listed) {
      used.add(listed[0])
      continue
    }
    assert.match(line, /^os-node /, `${page}: ${line} is neither run nor listed`)
    const { code, stderr } = cli(
      [...line.split(' ').slice(1), '--config', gateway.config, '--data-dir', gateway.dataDir],
      {
        cwd: dir,
      },
    )
    assert.equal(code, 0, `${page}: ${line}: ${stderr}`)
    ran++
  }
  t.diagnostic(`${ran} of ${commands.length} commands were run`)
  assert.ok(ran > 15)
  assert.deepEqual(
    NOT_RUN.flatMap(([pattern, reason]) => (used.has(pattern) ? [] : [`${pattern}: ${reason}`])),
    [],
    'entries that fit no command',
  )
})
