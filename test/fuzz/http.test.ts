// HTTP input besides queries: bodies of every route against their schemas, command lines, kinds of events, dotted
// configuration keys against the prefixes that may be written.
import assert from 'node:assert/strict'
import { auditText, splitCommand } from '../../src/commands/argv'
import { mayWrite } from '../../src/config'
import { WRITABLE_PREFIXES } from '../../src/config/fragments/web'
import { checkBody } from '../../src/web/body'
import { parseKinds } from '../../src/web/events'
import { hostName } from '../../src/web/guard'
import { ROUTES } from '../../src/web/routes'
import { fuzz } from './harness'
import { repeated } from './mutate'

const SCHEMAS = ROUTES.flatMap(({ body }) => body ?? [])

fuzz({
  name: 'http-body',
  allowed: ['BAD_REQUEST'],
  seeds: [
    '{"username":"bob","password":"x","role":"viewer","enabled":true}',
    '{"updates":[{"key":"engine_settings.precision","value":6,"value_type":"int"}]}',
    '{"medium":"udp","enabled":true,"reload":false}',
    '{"plugin":"tui","action":"cmd","sub_cmd":"x","args":["a"]}',
    '{"command":"status","background":false}',
    '{"job_id":"x","name":"pump","value":1}',
  ].map(text => Buffer.from(text)),
  words: ['"__proto__":', '"constructor":', '"key":', 'null', '[]', '{}', '1e999', '"\\u0000"', 'true'],
  inputs: 8_000,
  run(input) {
    let body: unknown
    try {
      body = JSON.parse(input.toString('utf8'))
    } catch {
      // non-JSON is refused before a schema sees it
      return 'no JSON'
    }
    if (typeof body !== 'object' || body === null || Array.isArray(body)) return 'no object'
    const fits = SCHEMAS.map(schema => {
      try {
        checkBody(schema, body as Record<string, unknown>)
        return '+'
      } catch (error) {
        assert.equal((error as { code?: string }).code, 'BAD_REQUEST')
        assert.match((error as Error).message, /^[^\n]{1,400}$/)
        return '-'
      }
    })
    assert.equal(({} as Record<string, unknown>).polluted, undefined)
    return fits.join('')
  },
})

fuzz({
  name: 'command-line',
  allowed: ['BAD_REQUEST'],
  seeds: [
    'os-node status --json',
    `transmit --sensors '[["T1","OK",21.5,"Cel"]]' --medium "UDP"`,
    'web-user add bob --password "a b\\" c"',
    'config-set --key a.password --value x',
  ].map(text => Buffer.from(text)),
  words: ['"', "'", '\\', '--password=', '--token ', '$(id)', ';', '|', '\n', '\u2028', ' '],
  run(input) {
    const argv = splitCommand(input.toString('utf8'))
    assert.ok(argv.length > 0)
    const line = auditText(argv)
    assert.doesNotMatch(line, /[\x00-\x1f\x7f-\x9f\u2028\u2029]/)
    assert.ok(line.length <= 501)
    return `${Math.min(argv.length, 9)}${line.includes('*')}`
  },
  growing: {
    'of quotes': n => repeated(`"a" `, n),
    'of backslashes': n => repeated('\\\\', n),
    'of one word': n => Buffer.from('a'.repeat(n - 100)),
    'of secrets': n => repeated('--password x ', n),
  },
})

fuzz({
  name: 'config-key',
  allowed: ['CONFIG_KEY', 'BAD_REQUEST'],
  seeds: ['engine_settings.precision', 'web_user.ui.ui_theme', 'RESOURCES.service_plugins.web_user.read_only'].map(
    key => Buffer.from(key),
  ),
  words: ['.', 'engine_settings', 'web_user', '__proto__', 'OpenSynaptic_Setting', ' ', '\0', 'read_only'],
  run(input) {
    const key = input.toString('utf8')
    const may = mayWrite(key, WRITABLE_PREFIXES)
    // a writable key begins with an allowed prefix, letter for letter and up to a dot
    if (may)
      assert.ok(
        WRITABLE_PREFIXES.some(prefix => key === prefix || key.startsWith(`${prefix}.`)) ||
          key.startsWith('RESOURCES.service_plugins.web_user.ui'),
        key,
      )
    parseKinds(key.includes('read') ? 'readings, links' : undefined)
    return `${may}${hostName(key) !== null}`
  },
})
