// Secrets of the command line: read from stdin or from a prompt, never from an argument of the process.
import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { readSecret } from '../../../src/cli/secret'
import { parseCommand, VERBS } from '../../../src/commands'

const silent = { write: () => true, isTTY: false } as unknown as Parameters<typeof readSecret>[2]

test('the first line of stdin is the secret, with its spaces and without its line end', async () => {
  for (const [given, secret] of [
    ['hunter2\nmore\n', 'hunter2'],
    ['  grün 🔑 \r\nmore', '  grün 🔑 '],
    ['no end', 'no end'],
    ['\nx', ''],
  ] as const) {
    const stdin = new PassThrough()
    stdin.end(given)
    assert.equal(await readSecret('password', stdin, silent), secret)
  }
  const nothing = new PassThrough()
  nothing.end()
  await assert.rejects(readSecret('password', nothing, silent), {
    code: 'USAGE',
    message: 'no password came on stdin',
  })
})

/** what a gateway receives for this command line */
async function sent(...argv: string[]): Promise<unknown> {
  const { verb, options } = parseCommand(VERBS, argv)
  const never = async (): Promise<never> => assert.fail('no file is read')
  return (
    await verb.prepare!(
      options,
      never,
      async what => `-typed ${what}`,
      () => undefined,
    )
  ).args
}

test('--password-stdin in every spelling becomes the password of the command', async () => {
  const bob = ['--username', 'bob', '--password=-typed password']
  assert.deepEqual(await sent('web-user', '--cmd', 'add', '--', '--username', 'bob', '--password-stdin'), bob)
  assert.deepEqual(await sent('web-user', 'add', '--password-stdin', '--username', 'bob'), bob)
  assert.deepEqual(
    await sent('plugin-cmd', 'web-user', 'update', '--username', 'bob', '--password-stdin', '--json'),
    bob,
  )
  assert.deepEqual(await sent('web-user', 'add', 'bob'), ['bob'])
  assert.deepEqual(await sent('web-user', 'add', '--password-stdin', '--help'), ['--password-stdin', '--help'])
  const foreign = ['plugin-cmd', 'port_forwarder', 'add-rule', '--password-stdin']
  assert.deepEqual(await sent(...foreign), ['--password-stdin'], 'other plugins read their own words')
  for (const twice of [['--password', 'x'], ['--password=x']])
    await assert.rejects(sent('web-user', 'add', 'bob', '--password-stdin', ...twice), { code: 'USAGE' })
})

test('config-set reads its value from stdin, and warns of a secret in the command line', async () => {
  const warnings: string[] = []
  const set = async (...argv: string[]): Promise<object> => {
    const { verb, options } = parseCommand(VERBS, ['config-set', ...argv])
    const never = async (): Promise<never> => assert.fail('no file is read')
    const warn = (text: string): void => void warnings.push(text)
    return verb.prepare!(options, never, async what => `typed ${what}`, warn)
  }
  const key = 'gateway.uplinks.0.password'
  assert.deepEqual(await set('--key', key, '--value-stdin'), { key, value: `typed ${key}` })
  assert.deepEqual(await set('--key', 'device_id', '--value', 'x'), { key: 'device_id', value: 'x' })
  await assert.rejects(set('--key', key, '--value', 'x', '--value-stdin'), { code: 'USAGE' })
  assert.equal(warnings.length, 0)
  assert.deepEqual(await set('--key', key, '--value', 'hunter2'), { key, value: 'hunter2' })
  await set('--key', 'gateway.uplinks', '--value', '[{"name": "a", "psk" : "hunter2"}]')
  assert.equal(warnings.length, 2)
  assert.ok(warnings.every(text => /--value-stdin/.test(text) && !text.includes('hunter2')))
})
