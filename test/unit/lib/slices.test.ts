import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { atOnce, inTurns, type Parts } from '../../../src/lib/slices'

test('sliced work yields to others when a slice was long, and stops where it fails', async () => {
  let beside = 0
  const timer = setInterval(() => beside++, 1)
  const long = function* (): Parts<number> {
    for (let part = 0; part < 3; part++) {
      const end = performance.now() + 6
      while (performance.now() < end);
      yield
    }
    return beside
  }
  assert.ok((await inTurns(long())) >= 3)
  clearInterval(timer)
  const failing = function* (): Parts<void> {
    yield () => Promise.reject(new OsError('CONFIG_INVALID', 'not that one'))
    assert.fail('went on')
  }
  await assert.rejects(inTurns(failing()), { message: 'not that one' })
  assert.equal(
    atOnce(
      (function* (): Parts<number> {
        yield () => assert.fail('waited')
        return 5
      })(),
    ),
    5,
  )
})
