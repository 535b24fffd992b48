// A plugin command that declares itself read-only may be run by a read-only user; all others need the lock and an
// admin.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AnyVerb, holds } from '../../../src/commands/verb'
import { deps, envGuard, pluginCmd, portForwarder, webUser } from '../../../src/commands/verbs/plugins'
import type { PluginDefinition, Service } from '../../../src/services'
import { dependencyPlugin } from '../../../src/services/dependencies'
import { envGuardPlugin } from '../../../src/services/env-guard'
import { portForwarderPlugin } from '../../../src/services/port-forwarder'
import { webUserPlugin } from '../../../src/services/web-user'
import { hostFor, tempDir } from './fake'

const OWN: readonly [PluginDefinition, AnyVerb][] = [
  [webUserPlugin, webUser],
  [portForwarderPlugin, portForwarder],
  [envGuardPlugin, envGuard],
  [dependencyPlugin, deps],
]

test('the command line treats as read-only what the plugin declares so', async t => {
  for (const [definition, verb] of OWN) {
    const service: Service = await definition.create(hostFor(definition.name, tempDir(t)))
    for (const [cmd, { reads = false }] of Object.entries(service.getCliCommands!())) {
      const where = `${definition.name} ${cmd}`
      assert.equal(holds(verb.changes, { cmd }), !reads, where)
      assert.equal(holds(pluginCmd.changes, { plugin: definition.name, cmd }), !reads, where)
    }
    for (const cmd of ['start', 'stop', 'made-up']) assert.equal(holds(verb.changes, { cmd }), true)
    assert.equal(holds(verb.changes, {}), false, 'its help')
  }
  assert.equal(holds(pluginCmd.changes, { plugin: 'foreign', cmd: 'status' }), true)
})

test('words that look like --help grant no access', () => {
  const changes = (args: readonly string[]) => holds(portForwarder.changes, { cmd: 'add-rule', args })
  assert.equal(changes(['--help']), false)
  assert.equal(changes(['--to', 'udp://h:1', '--', '--help']), true)
  assert.equal(changes(['--name=--help']), true)
})

test('both spellings of a command have the same role', () => {
  const read = (verb: AnyVerb, ...argv: string[]) => verb.read!(argv)
  const wanted = { cmd: 'start', args: ['--host', 'h', '--port', '1', '--block'] }
  assert.deepEqual(read(webUser, '--cmd', 'start', '--', '--host', 'h', '--port', '1', '--block'), wanted)
  assert.deepEqual(read(webUser, 'start', '--host', 'h', '--port', '1', '--block'), wanted)
  assert.deepEqual(read(webUser, '--cmd=start', '--host', 'h', '--port', '1', '--block'), wanted)
  assert.deepEqual(read(webUser, 'start', '--config', 'C', '--', '--config', 'D', '--json'), {
    cmd: 'start',
    config: 'C',
    json: true,
    args: ['--config', 'D'],
  })
  assert.deepEqual(read(pluginCmd, 'deps', 'install', 'quic', '--json'), {
    plugin: 'deps',
    cmd: 'install',
    json: true,
    args: ['quic'],
  })
  assert.deepEqual(read(pluginCmd, '--cmd', 'list', '--plugin', 'p'), { plugin: 'p', cmd: 'list' })
  assert.deepEqual(read(deps, '--help'), { help: true })
  assert.deepEqual(read(deps, 'install', '--help'), { cmd: 'install', args: ['--help'] })
  assert.throws(() => read(deps, '--cmd'), { code: 'USAGE' })
})
