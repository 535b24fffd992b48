import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SerialQueue } from '../../../src/lib/serial-queue'

test('jobs run one after the other, in order, and each caller gets its own result', async () => {
  const queue = new SerialQueue()
  const events: string[] = []
  const job = (name: string) => async () => {
    events.push(`${name} starts`)
    await new Promise(setImmediate)
    events.push(`${name} ends`)
    return name
  }
  assert.deepEqual(await Promise.all([queue.run(job('a')), queue.run(job('b'))]), ['a', 'b'])
  assert.deepEqual(events, ['a starts', 'a ends', 'b starts', 'b ends'])
})

test('an error goes to its caller only; the next job starts anyway', async () => {
  const queue = new SerialQueue()
  const failed = assert.rejects(
    queue.run(() => {
      throw new Error('first')
    }),
    /^Error: first$/,
  )
  assert.equal(await queue.run(() => 'second'), 'second')
  await failed
})

test('the first job waits for the initial promise of the queue; idle waits for the jobs so far', async () => {
  let ready = (): void => undefined
  const queue = new SerialQueue(
    new Promise<void>(resolve => {
      ready = resolve
    }),
  )
  let ran = 0
  void queue.run(async () => {
    await new Promise(setImmediate)
    ran++
  })
  await new Promise(setImmediate)
  assert.equal(ran, 0)
  ready()
  await queue.idle
  assert.equal(ran, 1)
})
