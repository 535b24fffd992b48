// The command line without a gateway: help, wrong usage, output as text and JSON, exit codes, files and exports.
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { findOwner } from '../../../src/gateway/lock'
import { OsError } from '../../../src/lib/errors'
import { type Rig, rig } from './cli-world'

test('the first word of several two-word commands has its own help', async () => {
  for (const line of ['source --help', 'source -h', 'help source']) {
    const { cli, out } = rig()
    assert.equal(await cli(line), 0, line)
    assert.match(out.text, /Usage: os-node source COMMAND/)
    assert.match(out.text, /source list +list sources[^\n]*\n +source test NAME +read/)
  }
  const { cli, out, err } = rig()
  assert.equal(await cli('source'), 2)
  assert.match(err.text, /needs one of: list, test\n {2}see os-node source --help/)
  // a command that is also the first word of others keeps its own help
  assert.equal(await cli('gpio --help'), 0)
  assert.match(out.text, /os-node gpio: list GPIO lines/)
})

test('help and version go to stdout with exit 0', async () => {
  const { cli, out, err } = rig()
  assert.equal(await cli('--help'), 0)
  assert.match(out.text, /Usage: os-node COMMAND[\s\S]*transmit[\s\S]*Examples:[\s\S]*Exit codes/)
  assert.equal(await cli('--version'), 0)
  assert.equal(out.text, '9.9.9\n')
  for (const line of ['log export --help', 'help log export']) {
    assert.equal(await cli(line), 0)
    assert.match(out.text, /os-node log export: [\s\S]*--from SEQ[\s\S]*Examples:/)
  }
  // the port to look at
  assert.equal(await cli('run --help'), 0)
  assert.match(out.text, /--port \S+ +port of the web page[\s\S]*--web-port \S+ +same as --port/)
  assert.equal(await cli('serve --help'), 0)
  assert.match(out.text, /--port \S+ +UDP port packets are received on[\s\S]*--web-port \S+ +port of the web page/)
  assert.equal(err.text, '')
})

test('wrong usage is exit 2 with a suggestion on stderr and an empty stdout', async () => {
  const { cli, out, err } = rig()
  assert.equal(await cli('transmit --valu 3'), 2)
  assert.match(err.text, /has no option --valu; did you mean --value\?\n {2}see os-node transmit --help/)
  assert.equal(await cli('stats'), 2)
  assert.match(err.text, /did you mean status\?/)
  assert.equal(out.text, '')
  for (const [typed, meant] of [
    ['config', 'config-get or config-set or config-unset'],
    ['export', 'db export or log export'],
  ] as const) {
    assert.equal(await cli(typed), 2)
    assert.match(err.text, new RegExp(`did you mean ${meant}\\?`))
  }
  assert.equal(await cli('xyzzy'), 2)
  assert.match(err.text, /no command "xyzzy"\n {2}see os-node --help/)
  assert.equal(await cli('--json status'), 2)
  assert.equal(await cli('status --nope --json'), 2)
  assert.equal(JSON.parse(out.text).code, 'USAGE')
  assert.match(err.text, /no option --nope/)
})

test('os-node without arguments prints a short help and exits 0', async () => {
  const { cli, out, err } = rig()
  assert.equal(await cli([]), 0)
  assert.match(
    out.text,
    /Usage: os-node COMMAND[\s\S]*\n {2}run +run the gateway[\s\S]*config-get KEY[\s\S]*os-node --help/,
  )
  assert.ok(out.text.split('\n').length < 20)
  assert.equal(err.text, '')
})

test('without --json every command prints text, and a result that is an error is one text on stderr', async () => {
  const { cli, out, err } = rig('{"gateway": {"uplinks": []}}')
  for (const [line, said] of [
    ['config-get device_id', /^\n$/],
    ['config-get engine_settings.precision', /^4\n$/],
    ['config-get gateway.uplinks', /^\[\]\n$/],
    ['config-get engine_settings.network_retry', /^enabled = /],
    ['config-show engine_settings', /^engine_settings\.precision = 4$/m],
    ['config-set engine_settings.precision 6', /^engine_settings\.precision: 4 → 6\n$/],
    ['decode 3f', /^id +gw$/m],
    ['time-sync 127.0.0.1 1', /^\d+ \(\d{4}-/],
    ['log-level', /^info\n$/],
    ['db-status', /^dialect +sqlite$/m],
    ['inject standardize', /standardize/],
    ['inject standardize --value 21.5 --unit Cel', /^ +s1_v +21\.5 °C$/m],
  ] as const) {
    assert.equal(await cli(line), 0, `${line}: ${err.text}`)
    assert.match(out.text, said, line)
    assert.throws(() => JSON.parse(out.text.startsWith('{') ? out.text : 'text'), line)
  }
  assert.equal(await cli('config-get engine_settings.precisio'), 1)
  assert.deepEqual(
    [out.text, err.text],
    ['', 'os-node: key not found: engine_settings.precisio\n  did you mean engine_settings.precision?\n'],
  )
  assert.equal(await cli('decode 00'), 1)
  assert.deepEqual([out.text, err.text], ['', 'os-node: Unknown command\n'])
  assert.equal(await cli('config-set gateway.log.commit_interval_ms -5'), 3)
  assert.equal(out.text, '')
  assert.doesNotMatch(err.text, /has no option/)
  assert.equal(await cli('run --port 1 --web-port 2'), 2)
  assert.match(err.text, /both the port of the page/)
})

test('--json prints exactly one document with the field `via`; without it the output is text', async () => {
  const { cli, out } = rig('{}')
  assert.equal(await cli('status --json'), 0)
  assert.equal(out.text.split('\n').length, 2)
  assert.equal(JSON.parse(out.text).via, 'local')
  await cli('status')
  assert.match(out.text, /no gateway is running[\s\S]*log: 9 records/)
  assert.doesNotMatch(out.text, /\x1b/)
  await cli('log verify')
  assert.match(out.text, /the log is sound: 9 records/)
  await cli('token --new')
  assert.match(out.text, /^a-new-token\n/)
})

test('transmit prints the JSON of the specification even without --json', async () => {
  const { cli, out } = rig('{}')
  assert.equal(await cli('transmit'), 0)
  const fields = [
    'assigned_id',
    'strategy',
    'packet_len',
    'packet_cmd',
    'dispatch_path',
    'sensors_count',
    'sent',
    'delivery',
  ]
  assert.deepEqual(Object.keys(JSON.parse(out.text)), fields)
  await cli('transmit --json')
  assert.deepEqual(Object.keys(JSON.parse(out.text)), [...fields, 'via'])
})

test('colours are used only on a terminal', async () => {
  const { cli, out } = rig('{}')
  out.isTTY = true
  await cli('status')
  assert.match(out.text, /\x1b\[/)
  await cli('status', { env: { NO_COLOR: '1' } })
  assert.doesNotMatch(out.text, /\x1b\[/)
})

test('errors use the exit code of the table, with the hint on stderr, or JSON on stdout with --json', async () => {
  const failing = (error: OsError): Rig =>
    rig('{}', context => ({
      ...context,
      node: async () => {
        throw error
      },
    }))
  const noId = failing(new OsError('NO_ASSIGNED_ID', 'no assigned physical ID: call ensure_id first'))
  assert.equal(await noId.cli('transmit'), 1)
  const document = JSON.parse(noId.out.text)
  assert.equal(document.code, 'NO_ASSIGNED_ID')
  assert.match(document.hint, /ensure-id/)
  assert.match(noId.err.text, /call ensure_id first\n {2}run os-node ensure-id/)
  assert.equal(await failing(new OsError('NO_DRIVER', 'No available driver: X')).cli('transmit --medium X'), 5)
  const wrong = failing(new OsError('USAGE', 'nothing like that'))
  assert.equal(await wrong.cli('transmit'), 2)
  assert.match(wrong.err.text, /nothing like that\n {2}see os-node transmit --help/)
  assert.equal(JSON.parse(wrong.out.text).hint, 'see os-node transmit --help')
  assert.equal(await failing(new OsError('DISK_FULL', 'full')).cli('transmit'), 4)
  assert.equal(await failing(new TypeError('oops') as OsError).cli('transmit'), 1)
})

test('a broken configuration is exit 3 with file, line and column; with a last good copy the command works', async () => {
  const { cli, cwd, out, err } = rig('{\n "device_id": \n}')
  assert.equal(await cli('status'), 3)
  assert.match(err.text, /Config\.json:\d:\d+: a value is expected/)
  writeFileSync(join(cwd, 'Config.json'), '{"device_id": "good"}')
  assert.equal(await cli('config-set --key assigned_id --value 3'), 0)
  writeFileSync(join(cwd, 'Config.json'), '{"device_id": 5}')
  assert.equal(await cli('status --json'), 0)
  assert.equal(JSON.parse(out.text).identity.device_id, 'good')
  assert.match(err.text, /Config\.json:1: device_id must be a text, not 5; the configuration in use is .*last-good/)
  assert.equal(await cli('status --config nowhere.json'), 3)
})

test('config-set changes the file; config-get of a missing key is exit 1', async () => {
  const { cli, cwd, out } = rig('{}')
  assert.equal(await cli('config-set --key engine_settings.precision --value 6 --type int'), 0)
  assert.equal(out.text, 'engine_settings.precision: 4 → 6\n')
  assert.equal(JSON.parse(readFileSync(join(cwd, 'Config.json'), 'utf8')).engine_settings.precision, 6)
  assert.equal(await cli('config-set --key engine_settings.precision --value 11 --type int'), 3)
  assert.equal(await cli('config-get --key no.such --json'), 1)
  assert.equal(JSON.parse(out.text).error, 'key not found')
})

test('commands that only read leave no files; those that write take the lock and release it', async () => {
  const { cli, cwd, setups } = rig('{}')
  for (const line of [
    'status',
    'config-show',
    'config-get --key device_id',
    'decode --hex 3f',
    'time-sync',
    'log verify',
  ]) {
    assert.equal(await cli(line), 0, line)
  }
  assert.ok(!existsSync(join(cwd, 'data')))
  assert.ok(setups.every(setup => setup.lock === undefined))
  await cli('ensure-id')
  assert.ok(setups.at(-1)?.lock)
  assert.equal(await findOwner(join(cwd, 'data')), undefined)
  await cli('run')
  assert.equal(setups.at(-1)?.lock, undefined, 'a gateway takes its own lock')
})

test('run prints the address to open, or one JSON document', async () => {
  const { cli, out } = rig('{}')
  assert.equal(await cli('run'), 0)
  assert.equal(out.text, 'look at http://127.0.0.1:8765\n')
  await cli('serve --json')
  assert.equal(JSON.parse(out.text).role, 'serve')
})

test('log export writes line by line at the speed of the reader, and ends quietly when the reader closes the pipe', async () => {
  let made = 0
  async function* endless(): AsyncGenerator<Record<string, unknown>> {
    for (;;) yield { boot: 1, seq: made++, t_raw: 0 }
  }
  const { cli, out } = rig('{}', context => ({ ...context, log: { ...context.log, export: endless } }))
  out.slow = true
  out.on('drain', () => {
    if (made > 50) out.emit('error', new Error('EPIPE'))
  })
  assert.equal(await cli('log export'), 0)
  const lines = out.text.trim().split('\n')
  assert.ok(lines.length <= 52 && made <= 52, `${lines.length} lines, ${made} made`)
  assert.deepEqual(JSON.parse(lines[3] ?? ''), { boot: 1, seq: 3, t_raw: 0 })
})

test('log export uses canonical units, or readable ones with --units display; other units are exit 2', async () => {
  const row = { boot: 1, seq: 1, t_raw: 0, id: 'd', s1_id: 't', s1_u: 'K', s1_v: 292.72999999999996 }
  async function* rows(): AsyncGenerator<Record<string, unknown>> {
    yield row
  }
  const { cli, out, err } = rig('{}', context => ({ ...context, log: { ...context.log, export: rows } }))
  assert.equal(await cli('log export'), 0)
  assert.deepEqual(JSON.parse(out.text), row)
  assert.equal(await cli('log export --units display'), 0)
  assert.deepEqual(JSON.parse(out.text), { ...row, s1_u: '°C', s1_v: 19.58 })
  assert.equal(await cli('log export --units kelvin'), 2)
  assert.match(err.text, /units/)
})
