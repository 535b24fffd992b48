import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { secondTimers } from '../../../src/lib/timers'

test('timers due in the same whole second share one timer; one that throws stops no other', async () => {
  mock.timers.enable({ apis: ['setTimeout'] })
  const ran: string[] = []
  // the middle of a second is far from where a time is rounded
  const second = 1000 - (performance.now() % 1000)
  const at = (ms: number, name: string) => secondTimers.after(second + ms, () => ran.push(name))
  try {
    at(2000, 'third')
    at(1200, 'second')
    const cancel = at(1000, 'cancelled')
    secondTimers.after(second + 900, () => assert.fail('thrown'))
    at(800, 'second, too')
    cancel()
    mock.timers.tick(second + 700)
    assert.deepEqual(ran, [])
    assert.throws(() => mock.timers.tick(310), /thrown/)
    assert.deepEqual(ran, ['second'])
    await new Promise(setImmediate)
    assert.deepEqual(ran, ['second', 'second, too'])
    mock.timers.tick(1010)
    assert.deepEqual(ran, ['second', 'second, too', 'third'])
  } finally {
    mock.timers.reset()
  }
})
