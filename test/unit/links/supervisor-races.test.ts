// What happens while a link opens or closes: losses, states, removal, disable and enable at that moment, and events in any order.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { FakeSource, FakeThing, rig } from './supervisor-world'

test('the state that a driver reports while it opens is not lost', async () => {
  const { supervisor, timers } = rig()
  const flawed = new FakeThing('flawed')
  flawed.onOpen = () => flawed.events!.degraded('slow bus')
  const gone = new FakeThing('gone')
  gone.onOpen = n => (n === 1 ? gone.events!.lost('unplugged at once') : undefined)
  supervisor.add(flawed)
  supervisor.add(gone)
  await timers.advance(0)
  assert.deepEqual(
    [supervisor.links()['flawed']?.state, supervisor.links()['flawed']?.reason],
    ['degraded', 'slow bus'],
  )
  assert.deepEqual(
    [supervisor.links()['gone']?.state, supervisor.links()['gone']?.reason],
    ['down', 'unplugged at once'],
  )
  await timers.advance(1000)
  assert.equal(supervisor.links()['gone']?.state, 'up')
})

test('a loss at the very moment of coming up is never missed', async () => {
  for (let depth = 0; depth < 12; depth++) {
    const { supervisor, timers } = rig()
    const thing = new FakeThing('x')
    const later = (steps: number): void => {
      if (steps === 0) thing.events!.lost('gone')
      else queueMicrotask(() => later(steps - 1))
    }
    thing.onOpen = n => (n === 1 ? later(depth) : undefined)
    supervisor.add(thing)
    await timers.advance(0)
    assert.deepEqual([supervisor.links()['x']?.state, supervisor.links()['x']?.reason], ['down', 'gone'], `${depth}`)
    assert.equal(thing.closes, 1)
    await timers.advance(1000)
    assert.equal(supervisor.links()['x']?.state, 'up')
  }
})

test('events of an ended opening are ignored', async () => {
  const { supervisor, timers } = rig()
  const thing = new FakeThing('udp')
  supervisor.add(thing)
  await timers.advance(0)
  const old = thing.events!
  supervisor.reopen('udp')
  await timers.advance(0)
  old.lost('stale')
  old.degraded('stale')
  assert.equal(supervisor.links()['udp']?.state, 'up')
  assert.equal(thing.opens, 2)
})

test('a loss reported twice is one loss', async () => {
  const { supervisor, timers } = rig()
  const thing = new FakeThing('udp')
  supervisor.add(thing)
  await timers.advance(0)
  thing.events!.lost('a')
  thing.events!.lost('b')
  assert.equal(supervisor.links()['udp']?.reason, 'a')
  await timers.advance(1000)
  assert.deepEqual([thing.opens, thing.closes], [2, 1])
})

test('a link removed while it opens is closed and never comes up', async () => {
  const { supervisor, timers, states } = rig()
  const thing = new FakeThing('ble')
  let finish = (): void => undefined
  thing.onOpen = () =>
    new Promise<void>(resolve => {
      finish = resolve
    })
  supervisor.add(thing)
  await timers.advance(10)
  const removed = supervisor.remove('ble')
  assert.deepEqual(supervisor.links(), {})
  await removed
  assert.ok(thing.closes >= 1)
  finish()
  await timers.advance(100_000)
  assert.deepEqual(states, ['ble opening', 'ble disabled'])
  assert.equal(thing.opens, 1)
  assert.equal(timers.pending, 0)
  await supervisor.remove('ble')
})

test('disable and enable during an opening never run two openings at once', async () => {
  const { supervisor, timers } = rig()
  const thing = new FakeThing('ble')
  let fail = (): void => undefined
  thing.onOpen = n =>
    n === 1
      ? new Promise<void>((_, reject) => {
          fail = () => reject(new Error('closed'))
        })
      : undefined
  thing.onClose = () => fail()
  supervisor.add(thing)
  await timers.advance(0)
  void supervisor.disable('ble')
  supervisor.enable('ble')
  supervisor.reopen('ble')
  await timers.advance(0)
  assert.equal(supervisor.links()['ble']?.state, 'up')
  assert.equal(thing.mostOpening, 1)
})

/** mulberry32 */
const randomOf = (seed: number) => (): number => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296
}

test('for events in any order: one opening at a time, all closed at the end, nothing left running', async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = randomOf(seed)
    const { supervisor, timers } = rig({ backoff: { random }, openTimeoutMs: 4000, closeTimeoutMs: 4000 })
    const source = new FakeSource('s', 500)
    let open = false
    let abort = (): void => undefined
    source.onOpen = () =>
      new Promise((resolve, reject) => {
        let closed = false
        abort = () => {
          closed = true
          reject(new Error('closed while opening'))
        }
        timers.after(random() * 3000, () => {
          if (closed) return
          if (random() < 0.3) return reject(new OsError('NETWORK', 'no'))
          open = true
          resolve()
        })
      })
    source.onClose = () => {
      abort()
      open = false
      return new Promise(resolve => void timers.after(random() * 500, resolve))
    }
    source.onRead = n =>
      new Promise((resolve, reject) =>
        timers.after(random() * 2500, () =>
          random() < 0.1 ? reject(new Error('gone')) : resolve([['a', 'OK', n, '%']]),
        ),
      )
    const link = supervisor.add(source)
    for (let step = 0; step < 40; step++) {
      const dice = random()
      if (dice < 0.15) void supervisor.disable('s')
      else if (dice < 0.4) supervisor.enable('s')
      else if (dice < 0.55) supervisor.reopen('s')
      else if (dice < 0.7) source.events?.lost('pulled')
      else if (dice < 0.8) source.events?.degraded(random() < 0.5 ? 'slow' : '')
      await timers.advance(random() * 2000)
      if (link.usable) assert.ok(open, `seed ${seed}: usable means open`)
    }
    supervisor.enable('s')
    await timers.advance(200_000)
    assert.notEqual(link.state.state, 'disabled')
    const stopped = supervisor.stop()
    await timers.advance(20_000)
    await stopped
    assert.deepEqual(
      [open, link.state.state, source.mostOpening, timers.pending],
      [false, 'disabled', 1, 0],
      `seed ${seed}`,
    )
  }
})
