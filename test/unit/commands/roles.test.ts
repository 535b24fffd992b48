import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VERBS } from '../../../src/commands'
import { LISTED, roleOf } from '../../../src/commands/roles'

test('every listed command exists, and none changes more than media and plugins for an operator', () => {
  const verbs = new Map(VERBS.map(verb => [verb.name, verb]))
  for (const name of LISTED) assert.ok(verbs.has(name), name)
  const changing = VERBS.filter(({ changes }) => changes === true).filter(verb => roleOf(verb, {}) === 'operator')
  assert.deepEqual(
    changing.map(({ name }) => name),
    ['transporter-toggle', 'plugin-load'],
  )
})

test('a command that may read or write gets its role from its arguments', () => {
  const role = (name: string, options: Record<string, string | true>): string =>
    roleOf(VERBS.find(verb => verb.name === name)!, options)
  assert.equal(role('safe-mode', {}), 'operator')
  assert.equal(role('safe-mode', { leave: true }), 'admin')
  assert.equal(role('log-level', {}), 'operator')
  assert.equal(role('log-level', { set: 'debug' }), 'admin')
  assert.equal(role('config-get', { key: 'x' }), 'operator')
  assert.equal(role('config-set', { key: 'x', value: 'y' }), 'admin')
  for (const name of ['token', 'transmit', 'gpio set', 'repair-config', 'reload', 'ensure-id'])
    assert.equal(role(name, {}), 'admin', name)
})
