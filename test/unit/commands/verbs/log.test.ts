// What the log of a stopped gateway reports about repaired damage: `status` and `log verify` name the records as a running gateway
// does.
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { closedLog, logOf } from '../../../../src/commands/adapters'
import { logVerify } from '../../../../src/commands/verbs/log'
import { status } from '../../../../src/commands/verbs/status'
import { ConfigStore } from '../../../../src/config'
import { FlashLog } from '../../../../src/log'
import { factOf, LOCAL } from '../../log/helpers'
import { STATUS } from '../fake'

const dataDir = mkdtempSync(join(tmpdir(), 'os-node-log-verb-'))
after(() => rmSync(dataDir, { recursive: true, force: true }))
const plain = { bold: String, dim: String, good: String, bad: String, warn: String }

test('log verify without a gateway names missing oldest segments that the limits have not dropped', async () => {
  const home = join(dataDir, 'oldest')
  const dir = join(home, 'log')
  for (let start = 0; start < 3; start++) {
    const log = await FlashLog.open({ dir })
    for (let k = 0; k < 5; k++) log.appendFact(factOf(k), LOCAL)
    await log.close()
  }
  rmSync(join(dir, readdirSync(dir).filter(name => name.endsWith('.seg'))[0]!))
  const log = { ...ConfigStore.load({ cwd: home, env: {}, keep: false }).config.gateway.log }
  const found = async (limits: object) => {
    const store = { dataDir: home, config: { gateway: { log: { ...log, ...limits } } } }
    const { ok, gaps } = await closedLog(store as never).verify({}, { signal: new AbortController().signal })
    return [ok, gaps]
  }
  assert.deepEqual(await found({}), [false, [{ reason: 'damaged', from: 1, to: 7, records: 7 }]])
  assert.deepEqual(await found({ max_age_s: 0.001 }), [true, []], 'the age limit drops them')
  assert.deepEqual(
    await logOf(home)
      .verify({}, { signal: new AbortController().signal })
      .then(({ ok }) => ok),
    true,
  )
})

test('status and log verify of a stopped gateway name the records that were lost to repaired damage', async () => {
  const dir = join(dataDir, 'log')
  for (const start of [1, 2, 3]) {
    const log = await FlashLog.open({ dir })
    if (start < 3) for (let k = 0; k < 5; k++) log.appendFact(factOf(k), LOCAL)
    await log.close()
    if (start === 2) rmSync(join(dir, readdirSync(dir).filter(name => name.endsWith('.seg'))[1]!))
  }
  const gaps = [{ reason: 'damaged', from: 8, to: 14, records: 7 }]
  const files = logOf(dataDir)
  const log = await files.summary()
  assert.deepEqual([log.damaged, log.gaps], [7, gaps])
  assert.match(
    status.text!({ ...STATUS, log } as never, plain),
    /\nlog damaged: records 8-14 are lost; check the disk\n/,
  )
  const found = await files.verify({}, { signal: new AbortController().signal })
  assert.deepEqual([found.ok, found.pieces, found.gaps], [true, [], gaps])
  assert.equal(
    logVerify.text!({ ...found }, plain),
    'the log is sound: 5 records; lost 7 to damage, 0 to the limits of log and RAM\ndamaged: records 8-14 are lost',
  )
})
