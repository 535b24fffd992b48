// A database server's facts over kills of the program at the worst moment, and an outage with an hour's data, appended at once. Takes minutes.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { FlashLog } from '../../../src/log'
import { Database } from '../../../src/storage'
import { removeDir, tempDir, until } from '../../lib/gateway'
import { prng } from '../../lib/random'
import { SERVER_DIALECTS, type ServerDialect, SqlServer, serverScript } from '../../lib/sqlservers'

const KILLS = 20
const T0 = Date.parse('2026-03-01T00:00:00Z')
const bundle = join(process.env.OS_NODE_TEST_ROOT ?? process.cwd(), 'dist/os-node.js')
const root = tempDir()
const servers = {} as Record<ServerDialect, SqlServer>

before(async () => {
  for (const dialect of SERVER_DIALECTS) servers[dialect] = await SqlServer.start(dialect)
})
after(async () => {
  for (const dialect of SERVER_DIALECTS) await servers[dialect]?.stop()
  removeDir(root)
})

/** Fills a log and a server until it is killed; prints each number whose commit in the log it has seen. */
const WRITER = `
  const { FlashLog, DatabaseManager } = require(process.argv[1])
  const [dir, sql, first] = process.argv.slice(2)
  FlashLog.open({ dir, commitIntervalMs: 20, ackCommitMs: 5 }).then(async log => {
    const db = new DatabaseManager({ storage: { sql: JSON.parse(sql) } }, { log })
    await db.connect()
    for (let k = Number(first); ; k++) {
      const sensors = [{ id: 'a', status: 'OK', unit: 'K', value: k }, { id: 'b', status: 'OK', unit: 'K', value: -k }]
      const seq = log.appendFact({ id: 'dev', state: 'ONLINE', tRaw: ${T0} + k * 1000, aid: 7, sensors }, { medium: 'UDP' })
      if (k % 20 === 0) {
        await log.committed(seq)
        process.stdout.write(k + '\\n')
      }
    }
  })`

for (const dialect of SERVER_DIALECTS)
  describe(dialect, () => {
    test(`${KILLS} kills: the server has what the log committed, once`, async () => {
      const sql = await servers[dialect].fresh()
      const dir = join(root, `kills-${dialect}`)
      const random = prng(11)
      let next = 0
      for (let kill = 0; kill < KILLS; kill++) {
        const child = spawn(process.execPath, ['-e', WRITER, bundle, dir, JSON.stringify(sql), String(next)], {
          stdio: ['ignore', 'pipe', 'inherit'],
        })
        // after a number of commits that the seed draws, so that it hits any moment of a batch
        const enough = 1 + Math.floor(random() * 40)
        let seen = 0
        let rest = ''
        await new Promise<void>(resolve => {
          child.once('exit', () => resolve())
          child.stdout.on('data', chunk => {
            rest += String(chunk)
            for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n')) {
              next = Math.max(next, Number(rest.slice(0, end)) + 1)
              rest = rest.slice(end + 1)
              if (++seen === enough) child.kill('SIGKILL')
            }
          })
        })
        assert.equal(child.signalCode, 'SIGKILL')
      }
      const log = await FlashLog.open({ dir })
      const facts = new Set<number>()
      for (const { fact } of log.read(1, { kinds: ['fact'] })) facts.add(fact!.tRaw)
      const db = new Database({ log, sql, serverScript, startWaitMs: 60_000 })
      await db.connect()
      await until('everything arrived', () => db.status().state === 'up' && db.lagRecords() === 0)
      const { database } = sql.driver
      const [packets] = await servers[dialect].ask(
        'SELECT COUNT(*), COUNT(DISTINCT timestamp_raw) FROM os_packets',
        database,
      )
      const [sensors] = await servers[dialect].ask('SELECT COUNT(*) FROM os_sensors', database)
      assert.ok(facts.size >= next - 1 && next > KILLS, `${facts.size} of ${next}`)
      assert.deepEqual([...packets!, ...sensors!].map(Number), [facts.size, facts.size, 2 * facts.size])
      await db.close()
      await log.close()
    })

    // the log gets what comes in an hour, at once: what an hour of waiting itself does to connections is not tested
    test('an hour of data, appended at once while the server is away, arrives when it is back, the newest facts included', async () => {
      const sql = await servers[dialect].fresh()
      const log = await FlashLog.open({ dir: join(root, `hour-${dialect}`), maxBytes: 256 * 1024 * 1024 })
      const db = new Database({ log, sql, serverScript, startWaitMs: 60_000 })
      await db.connect()
      await until('it is up', () => db.status().state === 'up')
      await servers[dialect].server.kill()
      // twenty devices with four sensors, a packet a second each
      const sensors = ['t', 'h', 'p', 'v'].map((id, k) => ({ id, status: 'OK', unit: 'K', value: k + 0.5 }))
      for (let second = 0; second < 3600; second++) {
        for (let device = 0; device < 20; device++)
          log.appendFact(
            { id: `dev-${device}`, state: 'ONLINE', tRaw: T0 + second * 1000 + device, aid: 7, sensors },
            { medium: 'UDP' },
          )
        if (second % 100 === 0) await log.flush()
      }
      await log.flush()
      await until('it is down', () => db.status().state === 'down')
      await servers[dialect].server.restart()
      await until('everything arrived', () => db.status().state === 'up' && db.lagRecords() === 0, 600_000)
      const { total, packets } = await db.queryPackets({ limit: 1 })
      assert.deepEqual([total, packets[0]!.timestamp_raw, db.status().duplicates], [72_000, T0 / 1000 + 3599, 0])
      await db.close()
      await log.close()
    })
  })
