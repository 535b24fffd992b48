import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { createLogger } from '../../../src/lib/logger'

test('R7: equal lines within a minute are one line with a count; the ring in RAM is limited', () => {
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

test('R7: repeats are written a minute after their line, whether or not it is repeated again', () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  try {
    const lines: string[] = []
    const logger = createLogger({ write: line => lines.push(line.slice(11)) }).child('up')
    for (const text of ['up', 'down', 'up']) {
      logger.info(text)
      mock.timers.tick(10_000)
    }
    assert.deepEqual(lines, ['00:00:00Z INFO  up: up\n', '00:00:10Z INFO  up: down\n'])
    mock.timers.tick(29_999)
    assert.equal(lines.length, 2)
    mock.timers.tick(1)
    assert.equal(lines[2], '00:01:00Z INFO  up: up (1 more like this)\n')
    mock.timers.tick(600_000)
    assert.equal(lines.length, 3)
    // a new line that evicts an old one writes the count of the evicted one
    logger.info('up')
    logger.info('up')
    for (let k = 0; k < 300; k++) logger.info(`line ${k}`)
    assert.equal(lines.filter(line => line.endsWith('up: up (1 more like this)\n')).length, 2)
  } finally {
    mock.timers.reset()
  }
})
