// The flash log in a temporary folder: written records are read back, a partial end is truncated, damage is reported.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FlashLogOptions } from '../../../log'
import type { Fact } from '../../../pipeline/fact'
import type { PluginCheck } from '../checks'
import { FlashLog, verify } from '../program'

const FACTS = 200
const T0 = 1_710_000_000_000

/** The k-th fact of the self-test; every value differs. */
export const testFact = (k: number): Fact => ({
  id: `self-test-${k % 3}`,
  state: 'ONLINE',
  tRaw: T0 + k * 1000,
  aid: 7,
  sensors: [
    { id: 'T1', status: 'OK', unit: 'K', value: 273.15 + k / 8 },
    { id: 'H1', status: k % 5 === 0 ? 'ERROR' : 'OK', unit: '%', value: k % 5 === 0 ? null : k / 4 },
  ],
})

/** Opens the log in `dir`, lets `work` use it and closes it. */
export async function withLog<T>(
  dir: string,
  work: (log: FlashLog) => T | Promise<T>,
  options: Partial<FlashLogOptions> = {},
): Promise<T> {
  const log = await FlashLog.open({ dir, commitIntervalMs: 10, ackCommitMs: 2, ...options })
  try {
    return await work(log)
  } finally {
    await log.close()
  }
}

const factsOf = (log: FlashLog): Fact[] => {
  const facts: Fact[] = []
  const reader = log.reader(1, { kinds: ['fact'] })
  for (let record = reader.next(); record; record = reader.next()) facts.push(record.fact!)
  return facts
}

async function written(dir: string, facts = FACTS): Promise<void> {
  await withLog(dir, async log => {
    for (let k = 0; k < facts; k++) log.appendFact(testFact(k), { medium: 'local' })
    await log.flush()
    assert.equal(log.committedSeq, log.lastSeq)
  })
}

/** The only segment in `dir`. */
const segmentOf = (dir: string): string => {
  const holding = readdirSync(dir, { withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => entry.name)
    .filter(name => readFileSync(join(dir, name)).includes('self-test-'))
  assert.equal(holding.length, 1)
  return join(dir, holding[0]!)
}

/** `folder(name)`: an empty folder. */
export const logChecks = (folder: (name: string) => string): readonly PluginCheck[] => [
  [
    'what was committed is read again',
    async () => {
      const dir = folder('log-again')
      await written(dir)
      assert.equal(verify(dir).ok, true)
      const facts = await withLog(dir, log => factsOf(log))
      assert.deepEqual(
        facts,
        Array.from({ length: FACTS }, (_, k) => testFact(k)),
      )
    },
  ],
  [
    'an end cut off after a clean stop costs the last record only, and the ledger names it',
    async () => {
      const dir = folder('log-cut')
      await written(dir)
      const path = segmentOf(dir)
      const bytes = readFileSync(path)
      // the record of the clean stop follows the last fact
      const last = bytes.lastIndexOf('self-test-')
      truncateSync(path, last + 8)
      await withLog(dir, log => {
        assert.equal(factsOf(log).length, FACTS - 1)
        assert.deepEqual(
          log.losses.map(({ reason }) => reason),
          ['damaged'],
        )
      })
    },
  ],
  [
    'a flipped byte costs one record, and the ledger names it',
    async () => {
      const dir = folder('log-flip')
      await written(dir)
      const path = segmentOf(dir)
      const bytes = readFileSync(path)
      bytes[bytes.indexOf('self-test-', Math.floor(bytes.lastIndexOf('self-test-') / 2))]! ^= 1
      writeFileSync(path, bytes)
      await withLog(dir, log => {
        const damaged = log.losses.filter(({ reason }) => reason === 'damaged')
        assert.equal(damaged.length, 1)
        assert.equal(factsOf(log).length, FACTS - 1)
      })
    },
  ],
  [
    'a full log drops the oldest and counts them',
    async () => {
      const dir = folder('log-full')
      const status = await withLog(
        dir,
        async log => {
          for (let k = 0; k < 6000; k++) {
            log.appendFact(testFact(k), { medium: 'local' })
            if (k % 1000 === 0) await log.flush()
          }
          await log.flush()
          return log.status()
        },
        { maxBytes: 256 * 1024 },
      )
      assert.ok(status.bytes <= 256 * 1024, `${status.bytes} bytes`)
      assert.ok(status.dropped > 0)
      const reader = await withLog(dir, log => factsOf(log).length + log.status().dropped, { maxBytes: 256 * 1024 })
      assert.equal(reader, 6000)
    },
  ],
]
