// The doctor as a command: a check that throws, exit code, JSON and text, names that are resolved once, and the real machine.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { remediesFile } from '../../../../src/checks/remedies'
import { parseCommand, VERBS } from '../../../../src/commands'
import { realMachine } from '../../../../src/commands/doctor/machine'
import { CHECKS, examine } from '../../../../src/commands/verbs/doctor'
import { calm, check, store, well } from '../doctor/doctor-world'
import { fake } from '../fake'

test('a check that throws is a finding, and the other checks continue', async () => {
  const { context } = fake(store(), calm)
  const broken = () => {
    throw new Error('oops')
  }
  const [first, second] = await examine(context, well(), { broken, version: CHECKS.version! })
  assert.deepEqual([first?.state, second?.state], ['failed', 'ok'])
  assert.match(first?.text ?? '', /oops/)
})

test('doctor and diagnose are one command: exit code, JSON, and text with a mark for each check', async () => {
  const { context } = fake(store('{ "device_id": 5 }'), calm)
  for (const name of ['doctor', 'diagnose']) {
    const { verb, options } = parseCommand(VERBS, [name])
    const { value, exitCode } = await verb.run(context, options)
    assert.ok(value && 'ok' in value && value.ok === false)
    assert.equal(exitCode, 1)
    const paint = Object.fromEntries(
      ['bold', 'dim', 'good', 'bad', 'warn'].map(how => [how, (t: string) => t]),
    ) as never
    const text = verb.text!(value!, paint)
    assert.match(text, /^failed +config +.*device_id must be a text[\s\S]*→ correct the file[\s\S]*\d failed/m)
  }
})

test('the doctor resolves each name once, and every probe uses those addresses', async () => {
  const asked: string[] = []
  const note = async (host: string): Promise<undefined> => void asked.push(host)
  const machine = { listen: async (_kind: string, host: string) => note(host), connects: note, answers: note }
  const config = {
    gateway: {
      uplinks: [
        { name: 'a', medium: 'TCP', host: 'h' },
        { name: 'b', medium: 'UDP', host: 'h', port: 1 },
      ],
      receivers: [{ name: 'r', medium: 'UDP', host: 'h', port: 2 }],
    },
    RESOURCES: { transport_status: { tcp: true } },
  }
  for (const name of ['upstream', 'ports']) assert.equal((await check(name, { config, machine })).state, 'ok')
  assert.deepEqual(new Set(asked), new Set(['192.0.2.1']))
})

test('advice that env_guard has from its file is the advice of the doctor too; the doctor makes no file', async () => {
  const config = store({ gateway: { sources: [{ name: 'meter', type: 'modbus_rtu', port: '/dev/ttyUSB0' }] } })
  const { context } = fake(config, calm)
  const machine = well({ look: () => ({ state: 'missing' }), addon: () => 'native addon missing: not built' })
  const hints = async () => {
    const reports = await examine(context, machine, { buses: CHECKS.buses!, addon: CHECKS.addon! })
    return reports.map(({ hint }) => hint ?? '')
  }
  assert.match((await hints())[0]!, /plug the adapter in/)
  const file = remediesFile(config.dataDir)
  assert.ok(!existsSync(dirname(file)))
  mkdirSync(dirname(file))
  const remedies = ['device', 'package'].map(kind => ({ kind, resource: '', remedy: 'call Ann about {resource}' }))
  writeFileSync(file, JSON.stringify({ remedies }))
  assert.deepEqual(await hints(), [
    'call Ann about /dev/ttyUSB0',
    'links that need it stay down; call Ann about native addon',
  ])
})

test('on the real machine no check throws, and a port in use is named', async () => {
  const machine = realMachine()
  assert.match((await machine.measure('/proc/uptime')) ?? '', /^\d+\.\d+ /)
  assert.equal(await machine.measure('/proc/no such file'), undefined)
  const { createServer } = await import('node:net')
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  assert.equal(await machine.listen('tcp', '127.0.0.1', port), 'EADDRINUSE')
  assert.equal(await machine.connects('127.0.0.1', port), undefined)
  await new Promise(resolve => server.close(resolve))
  assert.equal(await machine.listen('tcp', '127.0.0.1', port), undefined)
  assert.equal(await machine.connects('127.0.0.1', port), 'ECONNREFUSED')
  assert.match((await machine.answers('127.0.0.1', port)) ?? '', /nothing listens/)
  assert.ok((machine.space('/no/such/place')?.total ?? 0) > 0)
  assert.ok(machine.memory().limit > 0)
  assert.equal(machine.read('/no/such/file'), undefined)
  assert.deepEqual(machine.list('/no/such/dir'), [])
  assert.equal(machine.access('/no/such/file'), 'ENOENT')
  assert.deepEqual(
    [machine.look('/no/such/file'), machine.look('/dev/null')],
    [{ state: 'missing' }, { state: 'fine' }],
  )
  assert.equal(await machine.resolve('localhost'), '127.0.0.1')
})
