// Every command through a running gateway and without one, with the built file: the same keys and exit code, and `via`
// says which way was used. And behaviour that only a real process shows: the token of a first start, repair-config under
// a running gateway, watch until Ctrl-C, demo.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { VERBS } from '../../src/commands'
import { lanAddress, qrCode } from '../../src/commands/login'
import { Machine, removeDir, root, script, until } from '../lib/gateway'
import { alone, dir, lan, ports, running, say } from './commands-world'

const READINGS = '[["T1","OK",21.5,"Cel"],["P1","OK",101.3,"kPa"]]'
const FULL = '3f01000000070100018f2a5b3c00'

/** command line, keys of the result besides `via`, exit code; keys that only one way adds */
const COMMANDS: [line: string[], keys: string[], exit?: number, onlyGateway?: string[]][] = [
  [
    ['transmit', '--sensors', READINGS],
    ['assigned_id', 'strategy', 'packet_len', 'packet_cmd', 'dispatch_path', 'sensors_count', 'sent', 'delivery'],
  ],
  [['inject', '--module', 'standardize', '--sensors', READINGS], ['standardize']],
  [
    ['inject', '--module', 'compress'],
    ['standardize', 'compress'],
  ],
  [
    ['inject', '--module', 'fuse'],
    ['standardize', 'compress', 'fuse'],
  ],
  [
    ['inject', '--module', 'full'],
    ['standardize', 'compress', 'fuse'],
  ],
  [['decode', '--hex', FULL], ['error', '__packet_meta__'], 1],
  [
    ['ensure-id', '--timeout', '60'],
    ['ok', 'assigned_id'],
  ],
  [['time-sync', '--timeout', '60'], ['server_time']],
  [['id-info'], ['device_id', 'assigned_id', 'assigned', 'config_path', 'server']],
  [['snapshot'], ['device_id', 'assigned_id', 'services', 'transporters']],
  [['transport-status'], ['transport', 'items']],
  [
    ['config-get', '--key', 'engine_settings.precision'],
    ['key', 'value'],
  ],
  [['config-get', '--key', 'no.such'], ['error', 'key'], 1],
  [
    ['config-set', '--key', 'engine_settings.network_retry.max_retries', '--value', '3', '--type', 'int'],
    ['key', 'old', 'new'],
  ],
  [
    ['config-unset', '--key', 'engine_settings.network_retry.max_retries'],
    ['key', 'old', 'new'],
  ],
  [['config-show', '--section', 'web_user'], ['web_user']],
  [['repair-config'], ['ok', 'repaired']],
  [
    ['db-status'],
    ['enabled', 'dialect'],
    0,
    ['state', 'lag_records', 'packets', 'duplicates', 'left', 'missed', 'windows', 'refused'],
  ],
  [['core'], ['active', 'configured', 'available'], 0, ['gateway']],
  [
    ['log-level', '--set', 'debug'],
    ['level', 'old'],
  ],
  [
    ['transporter-toggle', '--name', 'tcp', '--enable'],
    ['name', 'enabled'],
  ],
  [
    ['reload-protocol', '--medium', 'udp'],
    ['medium', 'reloaded'],
  ],
  [['safe-mode'], ['active', 'crashes']],
  [['source', 'list'], ['sources']],
  [
    ['log', 'verify'],
    ['ok', 'records', 'first_seq', 'last_seq', 'damaged', 'lost', 'pieces', 'torn_bytes', 'gaps'],
  ],
  [
    ['token', '--new'],
    ['token', 'login_url'],
  ],
]

for (const [line, keys, exit = 0, more = []] of COMMANDS)
  test(`${line.join(' ').slice(0, 60)}: the same through the gateway and without one`, async () => {
    for (const [machine, via, expected] of [
      [running, 'gateway', [...keys, ...more]],
      [alone, 'local', keys],
    ] as const) {
      const { code, stdout, stderr } = await say(machine, ...line, '--json')
      const value = JSON.parse(stdout) as Record<string, unknown>
      assert.equal(value.via, via, stderr)
      assert.deepEqual(Object.keys(value).sort(), [...expected, 'via'].sort(), via)
      assert.equal(code, exit, `${via}: ${stdout}${stderr}`)
    }
  })

/** the other commands: with and without a gateway they have the same keys and exit code */
const ALIKE: string[][] = [
  ['board'],
  ['gpio'],
  ['source', 'test', 'load'],
  ['config-show', '--keys'],
  ['plugin-list'],
  ['plugin-load', 'port_forwarder'],
  ['plugin-cmd', 'env_guard', 'status'],
  ['web-user', 'status'],
  ['port-forwarder', 'list'],
  ['env-guard', 'status'],
  ['deps', 'check'],
  ['tui', 'render', '--section', 'identity'],
  ['tui', 'sections'],
]

for (const line of ALIKE)
  test(`${line.join(' ')}: the same through the gateway and without one`, async () => {
    const both = [running, alone].map(async machine => {
      const { code, stdout } = await say(machine, ...line, '--json')
      const { via, ...value } = JSON.parse(stdout) as Record<string, unknown>
      return { code, via, keys: Object.keys(value).sort() }
    })
    const [there, here] = await Promise.all(both)
    assert.deepEqual([there!.code, there!.keys], [here!.code, here!.keys])
    // an error says why, and the location of the failure is not compared
    if (there!.code === 0) assert.deepEqual([there!.via, here!.via], ['gateway', 'local'])
  })

test('status distinguishes a running gateway from files; reload, gpio set and session forget need a gateway', () => {
  assert.deepEqual([running.json('status').role, running.json('status').via], ['run', 'gateway'])
  assert.deepEqual([alone.json('status').role, alone.json('status').via], ['none', 'local'])
  assert.equal(running.json('reload').via, 'gateway')
  assert.equal(running.json('gpio', 'set', 'nothing', '1').code, 'NOT_FOUND')
  const { via, ...forgotten } = running.json('session', 'forget', '12')
  assert.deepEqual([via, forgotten], ['gateway', { assigned_id: 12, forgotten: false }])
  for (const line of [['reload'], ['gpio', 'set', 'nothing', '1'], ['session', 'forget', '12']]) {
    assert.equal(alone.json(...line).code, 'NO_GATEWAY')
    assert.equal(alone.run(...line).code, 1)
  }
})

test('outputs safe sets outputs only where no gateway controls them', () => {
  assert.equal(running.json('outputs', 'safe').code, 'LOCKED')
  const { code, stdout } = alone.run('outputs', 'safe', '--json')
  assert.deepEqual([code, JSON.parse(stdout).outputs], [0, []])
})

test('log export prints JSON lines with and without a gateway', () => {
  for (const machine of [running, alone]) {
    const { code, stdout, stderr } = machine.run('log', 'export', '--from', '1')
    assert.equal(code, 0, stderr)
    const lines = stdout.trim().split('\n')
    assert.ok(lines.length > 0 && lines.every(line => JSON.parse(line).t_raw > 0))
  }
})

test('db export writes its own file locally, with a gateway running and without one', () => {
  for (const [name, machine] of Object.entries({ running, alone })) {
    const file = join(dir, `${name}.sqlite`)
    const { code, stdout, stderr } = machine.run('db', 'export', file, '--json')
    const { ok, via, rows } = JSON.parse(stdout)
    assert.deepEqual([code, ok, via], [0, true, 'local'], stderr)
    assert.ok(rows.os_packets > 0 && rows.os_sensors > 0)
    assert.equal(readFileSync(file, 'latin1').slice(0, 15), 'SQLite format 3')
    assert.equal(machine.run('db', 'export', file).code, 2)
  }
})

test('every command is tested with and without a gateway, here or in its own test', () => {
  const tried = [...COMMANDS.map(([line]) => line), ...ALIKE].map(line => line.join(' '))
  const named = [
    ...tried,
    'status',
    'reload',
    'gpio set',
    'session forget',
    'outputs safe',
    'log export',
    'db export',
    'backup',
    'restore',
    'pipeline-info',
    'doctor',
    'watch',
    'demo',
  ]
  // the gateway itself, a terminal, a shell, the suites of the test plugin, the SD image, and a card
  const elsewhere = [
    'run',
    'completion',
    'serve',
    'tui interactive',
    'tui bios',
    'plugin-test',
    'update',
    'slots',
    'flash',
  ]
  const missing = VERBS.filter(({ name }) => ![...named, ...elsewhere].some(line => `${line} `.startsWith(`${name} `)))
  assert.deepEqual(
    missing.map(({ name }) => name),
    [],
  )
})

test('flash lists the removable disks and writes only a named one', () => {
  const { ok, disks } = alone.json('flash')
  assert.deepEqual([ok, Array.isArray(disks)], [true, true])
  const { code, stderr } = alone.run('flash', '/dev/null', '--image', join(root, 'package.json'), '--yes')
  assert.equal(code, 1)
  assert.match(stderr, /^os-node: \/dev\/null is not a disk$/m)
})

test('pipeline-info and doctor: a running gateway reports its counters and links', async () => {
  assert.equal(alone.json('pipeline-info').intake, undefined)
  assert.ok(running.json('pipeline-info').intake.facts > 0)
  const of = (machine: Machine, name: string): { state: string; text: string } =>
    machine.json('doctor').checks.find((check: { name: string }) => check.name === name)
  // queried again: the upstream may be slow to answer
  await until('it carries', () => /up is active/.test(of(running, 'upstream').text))
  await until('it answers', () => /UDP 127\.0\.0\.1:\d+ answers/.test(of(alone, 'upstream').text))
  // the page is at the configured address of this gateway
  assert.match(of(running, 'ports').text, new RegExp(`the gateway listens; page on http://127.0.0.1:${ports.page}$`))
  const taken = of(alone, 'ports')
  assert.equal(taken.state, 'failed')
  assert.match(taken.text, /another program uses it/)
  const { code, stdout } = alone.run('diagnose')
  assert.equal(code, 1)
  assert.match(stdout, /^failed +ports +TCP 127\.0\.0\.1/m)
  assert.doesNotMatch(stdout, /\x1b/)
})

test('watch: rows for the requested time and the changes, with and without a gateway', () => {
  const rows = (machine: Machine, ...more: string[]) =>
    machine
      .run('watch', '--module', 'transport', '--interval', '0.1', '--json', ...more)
      .stdout.split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line))
  for (const machine of [running, alone]) {
    const seen = rows(machine, '--duration', '2')
    assert.ok(seen.length >= 2)
    assert.deepEqual(Object.keys(seen[0]), ['at', 'module', 'changed', 'state'])
    assert.equal(seen[0].changed, null)
    assert.equal(seen[1].state.items.UDP.enabled, true)
  }
})

test('watch ends by Ctrl-C with exit 0, through the gateway too, and shows a change made meanwhile', async () => {
  for (const machine of [running, alone]) {
    const args = [
      'watch',
      '--module',
      'config',
      '--interval',
      '0.1',
      '--json',
      '--config',
      machine.config,
      '--data-dir',
      machine.dataDir,
    ]
    const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
    let text = ''
    child.stdout.on('data', chunk => {
      text += chunk
    })
    const code = new Promise(resolve => child.once('exit', resolve))
    await until('a first row', () => text.includes('\n'))
    const { old } = machine.json('config-set', '--key', 'gateway.failover.after_s', '--value', '6')
    await until('the change', () => text.includes('"changed":["gateway.failover.after_s"]'))
    child.kill('SIGINT')
    assert.equal(await code, 0)
    machine.run('config-set', '--key', 'gateway.failover.after_s', '--value', String(old))
  }
})

test('repair-config repairs a file that no other command accepts; a running gateway applies it immediately', () => {
  for (const machine of [running, alone]) {
    const sound = readFileSync(machine.config, 'utf8')
    writeFileSync(
      machine.config,
      sound.replace(/"device_id": *"gw"/, '"device_id": 5').replace(/"log_level": *"debug"/, '"log_level": "x"'),
    )
    if (machine === alone) {
      // without a good copy every other command ends with the error of the file
      for (const name of ['last-good', 'earlier']) removeDir(join(machine.dataDir, `config.${name}.json`))
      assert.equal(machine.run('status').code, 3)
      const check = machine.json('doctor').checks.find(({ name }: { name: string }) => name === 'config')
      assert.match(check.hint, /repair-config/)
    }
    const broken = readFileSync(machine.config, 'utf8')
    const value = machine.json('repair-config')
    assert.deepEqual(value.repaired, [
      { key: 'device_id', old: 5, new: '' },
      { key: 'gateway.log_level', old: 'x', new: 'info' },
    ])
    assert.equal(value.ok, true)
    assert.equal(readFileSync(`${machine.config}.bak`, 'utf8'), broken)
    assert.equal(machine.json('config-get', '--key', 'gateway.log_level').value, 'info')
    assert.equal(machine.json('config-get', '--key', 'assigned_id').value, 7)
    assert.equal(machine.run('status').code, 0)
  }
})

test('a first start prints the token once, with its link, and no QR code for the loopback; the token opens the API', async () => {
  const first = running.output.match(/sign in with +(\S+)/)?.[1]
  assert.ok(first?.startsWith(`http://127.0.0.1:${ports.page}/#/?token=`), running.output)
  assert.equal(running.output.split('admin token').length, 2)
  assert.doesNotMatch(running.output, /█▀▀▀▀▀█|█ ▄▄▄▄▄ █/)
  const { token, login_url } = running.json('token', '--new')
  assert.equal(new URL(login_url).hash, `#/?token=${token}`)
  const ask = (with_: string) =>
    fetch(`http://127.0.0.1:${ports.page}/api/config`, { headers: { 'X-Admin-Token': with_ } })
  assert.equal((await ask(token)).status, 200)
  assert.equal((await ask(first!.split('token=')[1]!)).status, 401)
})

test('run --lan: the page is encrypted, and the QR code of the first start is a login that a phone on the network can open', () => {
  assert.equal(lan.status, 200)
  // web_user.redirect_port
  assert.equal(lan.redirect.status, 308)
  assert.equal(lan.redirect.headers.get('location'), `https://127.0.0.1:${ports.page}/api/x`)
  const { output } = alone
  const link = new URL(output.match(/sign in with +(\S+)/)?.[1] ?? 'none:')
  const address = lanAddress()
  assert.equal(link.host, `${address ?? '127.0.0.1'}:${ports.page}`, output)
  assert.match(link.href, /^https:.*#\/\?token=/)
  assert.equal(output.includes(qrCode(link.href)), address !== undefined, output)
  assert.match(output, /web page on https:\/\/0\.0\.0\.0:/)
  assert.match(output, /self-signed/)
  if (address) assert.ok(lan.names.includes(`IP Address:${address}`), lan.names)
  // a page without login is not available on the network
  const open = new Machine(join(dir, 'open'), 'run', { web_user: { auth_enabled: false } })
  const { code, stderr } = open.run('run', '--lan')
  assert.equal(code, 3)
  assert.match(stderr, /open to the whole network[\s\S]*config-set web_user\.auth_enabled true/)
})

test('a log reader that disconnects ends nothing: the gateway continues and stops cleanly', async () => {
  const child = spawn(process.execPath, [script, 'demo', '--duration', '3', '--web-port', '0'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const code = new Promise(resolve => child.once('exit', resolve))
  child.stderr.once('data', () => child.stderr.destroy())
  assert.equal(await code, 0)
})

test('demo runs in its own temporary folder, removes it, and prints the address to open', () => {
  // other processes of this machine have folders in /tmp too
  const { TMPDIR } = process.env
  const place = join(dir, 'tmp')
  mkdirSync(place)
  process.env.TMPDIR = place
  const { code, stdout } = alone.run('demo', '--duration', '4', '--interval', '0.2', '--web-port', '0', '--json')
  if (TMPDIR === undefined) delete process.env.TMPDIR
  else process.env.TMPDIR = TMPDIR
  assert.equal(code, 0)
  const { role, url, login_url, data_dir, device_id } = JSON.parse(stdout)
  assert.deepEqual([role, device_id], ['demo', 'demo'])
  assert.ok(login_url.startsWith(`${url}/#/?token=`))
  assert.ok(data_dir.startsWith(place) && !existsSync(data_dir))
  assert.deepEqual(readdirSync(place), [])
})
