// When the supervisor opens a link again: after growing intervals (R11), immediately, or every few minutes, and what it logs meanwhile.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { down, FakeThing, rig } from './supervisor-world'

test('failed openings are retried with growing, capped backoff, and the retry time is reported', async () => {
  const { supervisor, timers, clock } = rig()
  const thing = new FakeThing('udp')
  thing.onOpen = down
  supervisor.add(thing)
  const pauses: number[] = []
  const start = clock.wall()
  for (let k = 0; k < 5 || (pauses.at(-1) ?? 0) < 60_000; k++) {
    await timers.advance(0)
    const link = supervisor.links()['udp']!
    assert.equal(link.state, 'down')
    assert.equal(link.reason, 'no answer')
    pauses.push(link.retry_at! - clock.wall())
    await timers.advance(link.retry_at! - clock.wall() - 1)
    assert.equal(thing.opens, k + 1)
    await timers.advance(1)
    assert.equal(thing.opens, k + 2)
  }
  const quick = pauses.slice(0, -1)
  assert.deepEqual(quick.slice(0, 4), [1000, 2000, 4000, 5000])
  assert.ok(quick.slice(4).every(pause => pause === 5000))
  const minutes = (clock.wall() - start - pauses.at(-1)!) / 60_000
  assert.ok(minutes >= 10 && minutes < 10.2, `${minutes} minutes`)
  assert.equal(thing.closes, thing.opens)
})

test('a peer that worked is retried every five seconds for ten minutes, a local one always; then with long intervals', async () => {
  const { supervisor, timers, clock } = rig({ network: () => 'network eth0' })
  const far = new FakeThing('far')
  const near = new FakeThing('near')
  supervisor.add(far, { host: '192.0.2.1' })
  supervisor.add(near, { host: '127.0.0.1' })
  await timers.advance(7_200_000)
  for (const thing of [far, near]) {
    thing.onOpen = down
    thing.events!.lost('away')
  }
  const pause = (name: string): number => supervisor.links()[name]!.retry_at! - clock.wall()
  const opens = far.opens
  await timers.advance(590_000)
  assert.ok(pause('far') <= 5000)
  assert.ok(far.opens - opens >= 110, `${far.opens - opens} tries`)
  await timers.advance(3_600_000)
  assert.ok(near.opens - far.opens > 500)
  assert.ok(pause('near') <= 5000)
  far.onOpen = () => undefined
  await timers.advance(60_000)
  assert.equal(supervisor.links()['far']?.state, 'up')
})

test('a change of the network ends the backoff of a link whose peer is on it, and of no other', async () => {
  let network = 'network'
  const { supervisor, timers } = rig({ network: () => network })
  const far = new FakeThing('far')
  const port = new FakeThing('port')
  for (const thing of [far, port]) thing.onOpen = down
  supervisor.add(far, { host: 'office.example' })
  supervisor.add(port)
  await timers.advance(3_620_000)
  const before = [far.opens, port.opens]
  network = 'network wlan0 192.0.2.7/24'
  await timers.advance(5000)
  assert.ok(far.opens > before[0]!)
  await timers.advance(8000)
  assert.ok(far.opens - before[0]! >= 4, 'pauses begin anew')
  assert.ok(port.opens - before[1]! <= 1)
})

test('`down` says since when, across all retries, and the log says it once', async () => {
  const { supervisor, timers, clock, lines } = rig()
  const thing = new FakeThing('udp')
  thing.onOpen = n => (n < 8 ? down() : undefined)
  const since = clock.wall()
  supervisor.add(thing)
  await timers.advance(20_000)
  assert.equal(supervisor.links()['udp']?.since, since)
  assert.equal(lines.filter(l => l.includes('down: no answer')).length, 1)
  await timers.advance(60_000)
  assert.equal(supervisor.links()['udp']?.state, 'up')
  // the next outage has its own start time and its own line
  thing.events!.lost('no answer')
  assert.equal(supervisor.links()['udp']?.since, clock.wall())
  assert.equal(lines.filter(l => l.includes('down: no answer')).length, 2)
})

test('a peer that accepts and then disconnects sees growing backoff; a stable minute resets it', async () => {
  const { supervisor, timers, clock } = rig()
  const thing = new FakeThing('mqtt')
  supervisor.add(thing)
  await timers.advance(0)
  const kicked = async (): Promise<number> => {
    thing.events!.lost('kicked')
    const pause = supervisor.links()['mqtt']!.retry_at! - clock.wall()
    await timers.advance(pause)
    assert.equal(supervisor.links()['mqtt']?.state, 'up')
    return pause
  }
  assert.deepEqual([await kicked(), await kicked(), await kicked()], [1000, 2000, 4000])
  await timers.advance(59_999)
  assert.equal(await kicked(), 5000)
  await timers.advance(60_000)
  assert.equal(await kicked(), 1000)
})

test('hardware that this machine lacks is no fault unless configured: no WARN, no error counted', async () => {
  const { supervisor, timers, lines } = rig()
  for (const [name, optional] of [
    ['thermal', true],
    ['wanted', false],
  ] as const) {
    const thing = new FakeThing(name)
    thing.onOpen = () => {
      throw new OsError('NOT_FOUND', `no ${name} on this machine`)
    }
    supervisor.add(thing, { optional })
  }
  await timers.advance(0)
  const { thermal, wanted } = supervisor.links()
  assert.deepEqual(
    [thermal!.state, thermal!.reason, thermal!.errors, thermal!.last_error],
    ['absent', 'no thermal on this machine', 0, undefined],
  )
  assert.deepEqual([wanted!.state, wanted!.errors], ['down', 1])
  assert.deepEqual(
    lines.filter(l => l.includes('WARN')).map(l => l.includes('wanted')),
    [true],
  )
})

test('a link that requests its own reopening gets it immediately: no WARN, no error counted', async () => {
  const { supervisor, timers, states, lines } = rig()
  const thing = new FakeThing('mqtt')
  supervisor.add(thing)
  await timers.advance(0)
  thing.events!.lost('the id is 7 now', true)
  await timers.advance(0)
  assert.deepEqual(states, ['mqtt opening', 'mqtt up', 'mqtt opening', 'mqtt up'])
  assert.deepEqual([thing.opens, thing.closes], [2, 1])
  const { errors, last_error } = supervisor.links()['mqtt']!
  assert.deepEqual([errors, last_error], [0, undefined])
  assert.deepEqual(
    lines.filter(line => /WARN|ERROR/.test(line)),
    [],
  )
  assert.match(lines.join(''), /INFO .*mqtt: the id is 7 now/)
})

test('an error that retrying cannot fix is retried only every few minutes', async () => {
  const { supervisor, timers, clock } = rig({ backoff: { random: () => 0.5 } })
  const thing = new FakeThing('hwmon')
  thing.onOpen = () => {
    throw new OsError('NOT_FOUND', 'no hwmon sensors on this machine')
  }
  supervisor.add(thing)
  await timers.advance(0)
  const link = supervisor.links()['hwmon']!
  assert.deepEqual([link.state, link.reason], ['down', 'no hwmon sensors on this machine'])
  assert.equal(link.retry_at! - clock.wall(), 300_000)
  await timers.advance(300_000)
  assert.equal(thing.opens, 2)
})

test('reopen ends a backoff early; on a disabled link it does nothing', async () => {
  const { supervisor, timers } = rig()
  const thing = new FakeThing('udp')
  thing.onOpen = n => (n === 1 ? down() : undefined)
  supervisor.add(thing)
  await timers.advance(0)
  supervisor.reopen('udp')
  await timers.advance(0)
  assert.equal(supervisor.links()['udp']?.state, 'up')
  await timers.advance(10_000)
  assert.equal(thing.opens, 2)
  await supervisor.disable('udp')
  supervisor.reopen('udp')
  await timers.advance(10_000)
  assert.equal(thing.opens, 2)
})

test('a peer that returned is retried immediately, without the earlier backoff; a watch ends with its interval', async () => {
  const { supervisor, timers, clock } = rig()
  const watches: (() => void)[] = []
  let ended = 0
  const thing = Object.assign(new FakeThing('usb'), {
    onReturn: (back: () => void) => {
      watches.push(back)
      return () => ended++
    },
  })
  let there = false
  thing.onOpen = () => {
    if (!there) throw new OsError('LINK_DOWN', 'no such port')
  }
  supervisor.add(thing)
  await timers.advance(12_500)
  assert.ok(supervisor.links()['usb']!.retry_at! - clock.wall() > 4000)
  assert.equal(watches.length - ended, 1, 'one watch at a time')
  there = true
  watches.at(-1)!()
  await timers.advance(0)
  assert.equal(supervisor.links()['usb']?.state, 'up')
  assert.equal(ended, watches.length)
  for (const back of watches) back()
  await timers.advance(0)
  assert.equal(supervisor.links()['usb']?.opens, 1, 'an old watch is not heard')
  thing.events!.lost('unplugged')
  assert.equal(supervisor.links()['usb']!.retry_at! - clock.wall(), 1000)
  await supervisor.disable('usb')
  assert.equal(ended, watches.length)
})

test('one failing link leaves the others alone, and its own backoff is configurable', async () => {
  const { supervisor, timers } = rig()
  const bad = new FakeThing('bad')
  bad.onOpen = down
  const good = new FakeThing('good')
  supervisor.add(bad, { backoff: { maxMs: 1500 } })
  supervisor.add(good)
  await timers.advance(30_000)
  assert.ok(bad.opens > 18, `${bad.opens}`)
  assert.deepEqual([good.opens, good.closes], [1, 0])
})
