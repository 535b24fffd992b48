// The supervisor: a link opens, is shown with its state and its last error, is closed, and one failing link affects no other.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { UnavailableLink } from '../../../src/links/unavailable-link'
import { down, FakeThing, rig } from './supervisor-world'

const never = new Promise<never>(() => undefined)

test('a link that opens goes through disabled, opening, up', async () => {
  const { supervisor, timers, states, clock } = rig()
  const thing = new FakeThing('udp')
  supervisor.add(thing)
  assert.equal(supervisor.links()['udp']?.state, 'opening')
  await timers.advance(0)
  assert.deepEqual(states, ['udp opening', 'udp up'])
  thing.counters.rx = 3
  thing.counters.errors = 1
  assert.deepEqual(supervisor.links(), {
    udp: { kind: 'line', state: 'up', since: clock.wall(), rx: 3, tx: 0, errors: 1, opens: 1 },
  })
})

test('a disabled link is not opened until it is enabled', async () => {
  const { supervisor, timers } = rig()
  const thing = new FakeThing('udp')
  supervisor.add(thing, { enabled: false })
  await timers.advance(100_000)
  assert.equal(thing.opens, 0)
  assert.equal(supervisor.links()['udp']?.state, 'disabled')
  supervisor.enable('udp')
  supervisor.enable('udp')
  await timers.advance(0)
  assert.equal(thing.opens, 1)
})

test('a link that cannot be created is shown down with its reason', async () => {
  const { supervisor, timers } = rig()
  supervisor.add(new UnavailableLink('lora', new OsError('NO_DRIVER', 'No available driver: LoRa')))
  await timers.advance(1000)
  const { state, reason, hint } = supervisor.links()['lora']!
  assert.deepEqual([state, reason], ['down', 'No available driver: LoRa'])
  assert.match(hint ?? '', /transporter-toggle/)
})

test('a thrown error of another class is a reason too', async () => {
  const { supervisor, timers } = rig()
  const thing = new FakeThing('x')
  thing.onOpen = () => {
    throw new TypeError('driver bug')
  }
  supervisor.add(thing)
  await timers.advance(0)
  assert.deepEqual(
    [supervisor.links()['x']?.state, supervisor.links()['x']?.reason, supervisor.links()['x']?.errors],
    ['down', 'driver bug', 1],
  )
})

test('an open that hangs times out, is closed and retried', async () => {
  const { supervisor, timers } = rig({ openTimeoutMs: 5000 })
  const thing = new FakeThing('ble')
  thing.onOpen = n => (n === 1 ? never : undefined)
  supervisor.add(thing)
  await timers.advance(4999)
  assert.equal(supervisor.links()['ble']?.state, 'opening')
  await timers.advance(1)
  assert.match(supervisor.links()['ble']?.reason ?? '', /did not open within 5 s/)
  assert.equal(thing.closes, 1)
  await timers.advance(1000)
  assert.equal(supervisor.links()['ble']?.state, 'up')
})

test('degraded is shown with its reason and ends with an empty reason', async () => {
  const { supervisor, timers, states } = rig()
  const thing = new FakeThing('udp')
  supervisor.add(thing)
  await timers.advance(0)
  thing.events!.degraded('nobody listens')
  thing.events!.degraded('nobody listens')
  assert.equal(supervisor.links()['udp']?.reason, 'nobody listens')
  thing.events!.degraded('')
  assert.equal(supervisor.links()['udp']?.reason, undefined)
  assert.deepEqual(states, ['udp opening', 'udp up', 'udp degraded', 'udp up'])
})

test('the last error and its time are shown also when the link works again', async () => {
  const { supervisor, timers, clock } = rig()
  const thing = new FakeThing('can')
  thing.onOpen = n => (n === 2 ? down() : undefined)
  supervisor.add(thing)
  await timers.advance(0)
  const told = () => [supervisor.links()['can']!.last_error, supervisor.links()['can']!.last_error_at]
  assert.deepEqual(told(), [undefined, undefined])
  assert.ok(!('last_error' in supervisor.links()['can']!), 'nothing ever went wrong')
  thing.events!.lost('unplugged')
  const lost = clock.wall()
  assert.deepEqual(told(), ['unplugged', lost])
  await timers.advance(1000)
  assert.deepEqual(told(), ['no answer', lost + 1000])
  await timers.advance(60_000)
  assert.equal(supervisor.links()['can']?.state, 'up')
  assert.deepEqual(told(), ['no answer', lost + 1000])
  thing.events!.degraded('bus errors')
  thing.events!.degraded('')
  assert.deepEqual([supervisor.links()['can']?.reason, told()[0]], [undefined, 'bus errors'])
})

test('a thousand losses leave no timer and no promise chain', async () => {
  const { supervisor, timers } = rig({ backoff: { maxMs: 100, minMs: 100 } })
  const thing = new FakeThing('uart')
  supervisor.add(thing)
  for (let k = 0; k < 1000; k++) {
    await timers.advance(100)
    assert.equal(supervisor.links()['uart']?.state, 'up')
    thing.events!.lost('unplugged')
  }
  assert.equal(timers.pending, 1) // the retry
  await supervisor.stop()
  await timers.advance(0)
  assert.equal(timers.pending, 0)
  assert.equal(thing.opens, 1000)
})

test('stop closes all, twice is once, and a close that hangs or throws blocks nothing', async () => {
  const { supervisor, timers, states } = rig({ closeTimeoutMs: 2000 })
  const things = ['a', 'b', 'c'].map(name => new FakeThing(name))
  things[1]!.onClose = () => never
  things[2]!.onClose = () => {
    throw new Error('close failed')
  }
  for (const thing of things) supervisor.add(thing)
  await timers.advance(0)
  const stopped = supervisor.stop()
  assert.equal(supervisor.stop(), stopped)
  await timers.advance(2000)
  await stopped
  assert.deepEqual(states.slice(-3), ['a disabled', 'b disabled', 'c disabled'])
  assert.deepEqual([things[0]?.closes, things[1]?.closes, things[2]?.closes], [1, 1, 1])
  assert.throws(() => supervisor.add(new FakeThing('d')), /after the stop/)
})

test('used or unsafe names are refused, unknown ones are not found', () => {
  const { supervisor } = rig()
  supervisor.add(new FakeThing('a'))
  assert.throws(() => supervisor.add(new FakeThing('a')), { code: 'CONFIG_INVALID' })
  assert.throws(() => supervisor.add(new FakeThing('a b')), { code: 'CONFIG_INVALID' })
  assert.throws(() => supervisor.reopen('zz'), { code: 'NOT_FOUND' })
})

test('`tried` settles when every first opening ended, successfully or not, or at its limit', async () => {
  const { supervisor, timers } = rig()
  const slow = new FakeThing('slow')
  slow.onOpen = () => new Promise(resolve => timers.after(3000, resolve))
  const bad = new FakeThing('bad')
  bad.onOpen = down
  supervisor.add(slow)
  supervisor.add(bad)
  let done = false
  void supervisor.tried().then(() => {
    done = true
  })
  await timers.advance(2999)
  assert.equal(done, false)
  await timers.advance(1)
  assert.equal(done, true)
  const stuck = new FakeThing('stuck')
  stuck.onOpen = () => never
  supervisor.add(stuck)
  let limited = false
  void supervisor.tried(500).then(() => {
    limited = true
  })
  await timers.advance(500)
  assert.equal(limited, true)
})

test('an exception in a listener affects no other', async () => {
  const { supervisor, timers, lines } = rig()
  const seen: string[] = []
  supervisor.onChange(() => {
    throw new Error('page is gone')
  })
  const end = supervisor.onChange((_, state) => seen.push(state.state))
  supervisor.add(new FakeThing('a'))
  await timers.advance(0)
  end()
  await supervisor.disable('a')
  assert.deepEqual(seen, ['opening', 'up'])
  assert.ok(lines.some(line => line.includes('page is gone')))
})
