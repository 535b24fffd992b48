import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseCommand, programHelp, VERBS, verbHelp } from '../../../src/commands'
import { OsError } from '../../../src/lib/errors'

const parse = (line: string, env = {}) => parseCommand(VERBS, line.split(' '), env)
const refused = (line: string, text: RegExp): void => {
  assert.throws(
    () => parse(line),
    (error: unknown) => {
      assert.ok(error instanceof OsError)
      assert.equal(error.code, 'USAGE')
      assert.equal(error.traits.exit, 2)
      assert.match(error.message, text)
      return true
    },
    line,
  )
}

test('transmit has the defaults of the specification', () => {
  const { verb, options } = parse('transmit')
  assert.equal(verb.name, 'transmit')
  assert.deepEqual(options, { 'sensor-id': 'V1', 'sensor-status': 'OK', value: 1, unit: 'Pa', status: 'ONLINE' })
  assert.equal(parse('os-transmit').verb.name, 'transmit')
})

test('negative numbers are values, in both spellings', () => {
  assert.equal(parse('transmit --value -5').options.value, -5)
  assert.equal(parse('transmit --value=-.5').options.value, -0.5)
  assert.equal(parse('transmit --value 1e3').options.value, 1000)
  assert.equal(parse('config-set --key a.b --value -5').options.value, '-5')
})

test('an operand needs no option name; too many and too few operands are reported', () => {
  assert.equal(parse('source test boiler').options.name, 'boiler')
  assert.equal(parse('source test --name boiler').options.name, 'boiler')
  assert.equal(parse('source test --json boiler').options.name, 'boiler')
  refused('source test', /os-node source test needs NAME$/)
  refused('source test boiler cellar', /does not take "cellar"/)
  refused('source test --name boiler cellar', /does not take "cellar"/)
  assert.match(verbHelp(parse('source test boiler').verb), /Usage: os-node source test NAME \[OPTIONS\]/)
})

test('two-word commands are parsed, and their first word names the group', () => {
  assert.equal(parse('log export --from 5').options.from, 5)
  assert.equal(parse('log verify').verb.name, 'log verify')
  refused('log', /needs one of: verify, export/)
  refused('log delete', /needs one of/)
})

test('a mistake is named together with what was probably meant', () => {
  refused('trasmit', /no command "trasmit"; did you mean transmit\?/)
  refused('xyzzy', /no command "xyzzy"$/)
  refused('transmit --valu 5', /no option --valu; did you mean --value\?/)
  refused('transmit -x', /no option -x/)
  refused('transmit --no-json', /no option --no-json/)
  refused('transmit extra', /does not take "extra"/)
  refused('transmit --value', /--value needs a value \(VAL\)/)
  refused('transmit --unit --json', /--unit needs a value/)
  refused('transmit --value much', /--value must be a number, not "much"/)
  refused('transmit --value NaN', /--value must be a number/)
  refused('status --json=yes', /--json takes no value/)
  refused('decode', /decode needs HEX/)
  refused('config-get', /config-get needs KEY/)
  refused('run --port 70000', /--port must be a whole number 0–65535/)
  refused('run --port 80.5', /--port must be a whole number/)
  refused('log export --from -1', /--from must be a whole number of at least 0/)
  refused('ensure-id --port 0', /1–65535/)
  refused('status --__proto__ 1', /no option --__proto__/)
})

test('a word similar to part of a command suggests that command, and an unrelated word suggests nothing', () => {
  refused('plugins', /no command "plugins"; did you mean .*plugin-list/)
  refused('sources', /did you mean source list/)
  refused('users', /did you mean web-user/)
  refused('verfy', /did you mean log verify/)
  refused('logz', /did you mean .*log verify or log export/)
  refused('zzz', /no command "zzz"$/)
})

test('an unknown command of a group is reported with the group and the nearest command', () => {
  refused('tui rendr', /os-node tui has no command "rendr"; did you mean render\? It needs one of: .*bios/)
  refused('gpio sett', /os-node gpio has no command "sett"; did you mean set\?/)
  refused('log exprt', /did you mean export\?/)
  refused('log', /os-node log needs one of: verify, export/)
  assert.equal(parse('tui --section identity').verb.name, 'tui interactive')
})

test('command words of other software are answered with the command that does the same', () => {
  for (const [line, hint] of [
    ['wizard', /os-node run/],
    ['init', /os-node run/],
    ['restart', /systemctl restart os-node/],
    ['native-check', /deps doctor/],
    ['native-build', /deps doctor/],
    ['rscore-check', /os-node core/],
    ['rscore-build', /os-node core/],
    ['start', /os-node run/],
    ['stop', /Ctrl-C/],
    ['run --once', /os-node transmit/],
    ['doctor --self-heal', /repair-config/],
    ['diagnose --self-heal', /repair-config/],
    ['decode --data 3f', /--hex/],
  ] as const)
    assert.throws(
      () => parseCommand(VERBS, line.split(' ')),
      ({ code, hint: told }: OsError) => code === 'USAGE' && hint.test(told),
      line,
    )
  // any word is allowed as a value
  assert.equal(parseCommand(VERBS, ['run', '--host', 'wizard']).options.host, 'wizard')
})

test('each program of the specification is also a command', () => {
  for (const [word, name] of [
    ['os-web', 'web-user'],
    ['os-transmit', 'transmit'],
    ['os-tui', 'tui interactive'],
  ])
    assert.equal(parseCommand(VERBS, [word!]).verb.name, name)
})

test('environment variables are used when the option is missing', () => {
  const env = { OS_NODE_CONFIG: '/a.json' }
  assert.equal(parse('status', env).options.config, '/a.json')
  assert.equal(parse('status --config /b.json', env).options.config, '/b.json')
})

test('every verb has help with its options and examples that parse', () => {
  const all = programHelp(VERBS, '1.2.3')
  for (const verb of VERBS) {
    assert.ok(all.includes(`  ${verb.name} `), verb.name)
    const help = verbHelp(verb)
    for (const name of Object.keys(verb.options ?? {})) assert.ok(help.includes(`--${name}`), `${verb.name} --${name}`)
    assert.ok(verb.examples.length > 0, verb.name)
    for (const example of verb.examples) {
      assert.ok(help.includes(example))
      const words = example.replace(/ [|>].*/, '').match(/'[^']*'|"[^"]*"|\S+/g) ?? []
      const parsed = parseCommand(
        VERBS,
        words.slice(1).map(word => word.replace(/^['"]|['"]$/g, '')),
      )
      assert.equal(parsed.verb, verb, example)
    }
    assert.equal(parse(`${verb.name} --help`).help, true)
    assert.equal(parse(`${verb.name} -h`).help, true)
  }
})
