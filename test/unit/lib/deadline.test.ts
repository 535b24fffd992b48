import assert from 'node:assert/strict'
import { test } from 'node:test'
import { timeout, within } from '../../../src/lib/deadline'
import { ManualClock, ManualTimers } from '../../lib/manual'

const pending = () => {
  let settle: { resolve: (value: string) => void; reject: (error: Error) => void } | undefined
  const work = new Promise<string>((resolve, reject) => {
    settle = { resolve, reject }
  })
  return { work, ...settle! }
}

test('work that ends in time gives its result or its error, and the timer is cancelled', async () => {
  const timers = new ManualTimers(new ManualClock())
  assert.equal(await within(timers, 100, Promise.resolve('done'), timeout('it did not end', 100)), 'done')
  await assert.rejects(
    within(timers, 100, Promise.reject(new Error('broken')), timeout('it did not end', 100)),
    /^Error: broken$/,
  )
  assert.equal(timers.pending, 0)
})

test('the deadline is not one millisecond early; after it the result of `late` is returned or thrown', async () => {
  const timers = new ManualTimers(new ManualClock())
  const { work } = pending()
  let result = ''
  void within(timers, 1500, work, () => 'late').then(value => {
    result = value
  })
  await timers.advance(1499)
  assert.equal(result, '')
  await timers.advance(1)
  assert.equal(result, 'late')
  const refused = assert.rejects(within(timers, 1500, work, timeout('the port did not open', 1500)), {
    code: 'TIMEOUT',
    message: 'the port did not open within 1.5 s',
  })
  await timers.advance(1500)
  await refused
})

test('an error after the deadline has no effect', async () => {
  const timers = new ManualTimers(new ManualClock())
  const { work, reject } = pending()
  const result = within(timers, 10, work, () => 'late')
  await timers.advance(10)
  reject(new Error('too late'))
  await timers.advance(10)
  assert.equal(await result, 'late')
})
