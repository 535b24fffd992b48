import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLogger } from '../../../src/lib/logger'

test('R7: equal lines within a minute are one line with a count; the ring in RAM is bounded', () => {
  const lines: string[] = []
  let at = 0
  const logger = createLogger({ write: line => lines.push(line), now: () => at, ringSize: 3 })
  for (let i = 0; i < 1000; i++) logger.warn('no route')
  assert.deepEqual(lines, ['1970-01-01T00:00:00Z WARN  os-node: no route\n'])
  at = 60_000
  logger.warn('no route')
  assert.equal(lines[1], '1970-01-01T00:01:00Z WARN  os-node: no route (999 more like this)\n')
  for (const name of ['a', 'b', 'c', 'd']) logger.child(name).info('up')
  logger.debug('below the level')
  assert.deepEqual(
    logger.recent().map(({ scope }) => scope),
    ['b', 'c', 'd'],
  )
  assert.equal(lines.length, 6)
})
