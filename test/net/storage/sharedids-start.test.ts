// Starts of `serve` whose ids are in PostgreSQL: log and status name the reason why no ids are assigned, and only where there is one.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../../lib/gateway'
import { SqlServer } from '../../lib/sqlservers'

const dir = tempDir()
let server: SqlServer
let machine: Machine
const sql: { driver?: { database: string } } = {}

before(async () => {
  server = await SqlServer.start('postgresql')
  Object.assign(sql, await server.fresh())
  machine = new Machine(join(dir, 'receiver'), 'serve', {})
})
after(async () => {
  await machine?.stop('SIGKILL')
  await server?.stop()
  removeDir(dir)
})

/** Starts with these changes to storage.sql.driver; returns what this start has logged so far. */
async function start(driver: object = {}): Promise<() => string> {
  await machine.stop()
  machine.configure({
    web_user: { auth_enabled: false },
    storage: { sql: { ...sql, driver: { ...sql.driver, ...driver } } },
    security_settings: { id_lease: { store: 'postgresql' } },
  })
  const before = machine.output.length
  const web = await freePort()
  await machine.start(['--host', '127.0.0.1', '--port', String(await freeUdpPort()), '--web-port', String(web)], web)
  return () => machine.output.slice(before)
}

const ids = async () => (await machine.ask('status')).ids as { allocated?: number; problem?: string }
const read = () => until('the ids are read', async () => (await ids()).allocated === 0)

/** Status and log have that reason, once in the log. */
async function refused(log: () => string, reason: RegExp): Promise<void> {
  await until(`the status has ${reason}`, async () => reason.test(String((await ids()).problem)))
  const errors = log().match(/no ids are assigned.*/g) ?? []
  assert.equal(errors.length, 1, errors.join('\n'))
  assert.match(errors[0]!, reason)
}

test('a start on a healthy server logs no error, and the status has no problem before the first packet', async () => {
  const log = await start()
  await read()
  assert.equal((await ids()).problem, undefined)
  assert.doesNotMatch(log(), /no ids are assigned|not configured/)
})

test('a wrong password is named', async () => {
  await refused(await start({ password: 'not-this-one' }), /password authentication failed/)
})

test('a newer schema is named', async () => {
  const { database } = sql.driver!
  await server.ask('UPDATE os_schema SET version = version + 90', database)
  await refused(await start(), /version 9\d/)
  await server.ask('UPDATE os_schema SET version = version - 90', database)
})

test('an unreachable server is named; the problem ends without a packet when the server is back', async () => {
  await machine.stop()
  await server.server.kill()
  const log = await start()
  await refused(log, /ECONNREFUSED/)
  await server.server.restart()
  await read()
  const status = await machine.ask('status')
  assert.deepEqual([status.ids.problem, status.storage.state, status.storage.refused], [undefined, 'up', 0])
  assert.equal(log().match(/no ids are assigned/g)?.length, 1)
})
