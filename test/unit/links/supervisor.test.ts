import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { createLogger } from '../../../src/lib/logger'
import type { LinkCounters, Openable, OpenableEvents, Source, SourceReading } from '../../../src/links/contracts'
import { Supervisor, type SupervisorOptions } from '../../../src/links/supervisor'
import { MissingLink } from '../../../src/links/unavailable-link'
import { ManualClock, ManualTimers } from '../../lib/manual'

class FakeThing implements Openable {
  readonly counters: LinkCounters = { rx: 0, tx: 0, errors: 0 }
  opens = 0
  closes = 0
  /** openings running now, and the maximum at the same time */
  opening = 0
  mostOpening = 0
  events: OpenableEvents | undefined
  onOpen: (n: number) => Promise<void> | void = () => undefined
  onClose: () => Promise<void> | void = () => undefined
  constructor(readonly name: string) {}
  async open(events: OpenableEvents): Promise<void> {
    this.events = events
    this.opening++
    this.mostOpening = Math.max(this.mostOpening, this.opening)
    try {
      await this.onOpen(++this.opens)
    } finally {
      this.opening--
    }
  }
  async close(): Promise<void> {
    this.closes++
    await this.onClose()
  }
}

class FakeSource extends FakeThing implements Source {
  readonly type = 'fake'
  reads = 0
  onRead: (n: number) => Promise<readonly SourceReading[]> = async n => [['a', 'OK', n, 'Cel']]
  constructor(
    name: string,
    readonly intervalMs = 1000,
  ) {
    super(name)
  }
  read(): Promise<readonly SourceReading[]> {
    return this.onRead(++this.reads)
  }
}

function rig(options: Partial<SupervisorOptions> = {}) {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const states: string[] = []
  const lines: string[] = []
  const got: { source: string; value: number | null; at: number; status: string }[] = []
  const supervisor = new Supervisor({
    clock,
    timers,
    logger: createLogger({ level: 'debug', write: line => lines.push(line), now: () => clock.wall() }),
    backoff: { random: () => 1 },
    onReadings: (source, rows, at) => {
      for (const row of rows) got.push({ source: source.name, value: row[2], at, status: row[1] })
    },
    ...options,
  })
  supervisor.onChange((name, state) => states.push(`${name} ${state.state}`))
  return { clock, timers, supervisor, states, lines, got }
}

const never = new Promise<never>(() => undefined)
const down = () => {
  throw new OsError('LINK_DOWN', 'no answer')
}

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

test('a link that cannot be created is shown down with its reason', async () => {
  const { supervisor, timers } = rig()
  supervisor.add(new MissingLink('lora', new OsError('NO_DRIVER', 'No available driver: LoRa')))
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

test('a source is read immediately and then on its grid, however long a read takes', async () => {
  const { supervisor, timers, got, clock } = rig()
  const source = new FakeSource('cpu', 1000)
  source.onRead = async n => {
    await new Promise<void>(resolve => timers.after(300, resolve))
    return [['a', 'OK', n, '%']]
  }
  const start = clock.wall()
  supervisor.add(source)
  await timers.advance(4500)
  assert.deepEqual(
    got.map(g => g.at - start),
    [0, 1000, 2000, 3000, 4000],
  )
  assert.equal(supervisor.links()['cpu']?.reads, 5)
  assert.deepEqual([supervisor.links()['cpu']?.kind, supervisor.links()['cpu']?.type], ['source', 'fake'])
})

test('after a suspend of the machine the grid continues without a burst', async () => {
  const { supervisor, timers, got, clock } = rig()
  const source = new FakeSource('cpu', 1000)
  const start = clock.wall()
  supervisor.add(source)
  await timers.advance(1500)
  clock.advance(10_200)
  await timers.advance(1400)
  assert.deepEqual(
    got.map(g => g.at - start),
    [0, 1000, 11_700, 12_000, 13_000],
  )
  assert.equal(supervisor.links()['cpu']?.skipped, 9)
})

test('a read that hangs degrades its source, never overlaps, and does not affect the others', async () => {
  const { supervisor, timers, got, clock } = rig()
  const slow = new FakeSource('slow', 1000)
  let finish: (rows: readonly SourceReading[]) => void = () => undefined
  slow.onRead = n =>
    n === 2
      ? new Promise(resolve => {
          finish = resolve
        })
      : Promise.resolve([['a', 'OK', n, 'Cel']])
  const other = new FakeSource('other', 1000)
  supervisor.add(slow)
  supervisor.add(other)
  await timers.advance(5500)
  const link = supervisor.links()['slow']!
  assert.deepEqual([link.state, link.reason], ['degraded', 'a read takes longer than 1 s'])
  assert.equal(link.errors, 1)
  assert.equal(slow.reads, 2)
  assert.equal(other.reads, 6)
  assert.equal(supervisor.links()['other']?.state, 'up')
  finish([['a', 'OK', 77, 'Cel']])
  await timers.advance(0)
  const late = got.filter(g => g.source === 'slow').at(-1)
  assert.deepEqual([late?.value, late?.at], [77, clock.wall()])
  await timers.advance(500)
  assert.equal(supervisor.links()['slow']?.state, 'up')
  assert.equal(slow.reads, 3)
})

test('a read still pending after a reopening is not overlapped, its late readings are dropped, and that is reported', async () => {
  const { supervisor, timers, got } = rig()
  const source = new FakeSource('slow', 1000)
  let finish: (rows: readonly SourceReading[]) => void = () => undefined
  source.onRead = n =>
    n === 1
      ? new Promise(resolve => {
          finish = resolve
        })
      : Promise.resolve([['a', 'OK', n, 'Cel']])
  supervisor.add(source)
  await timers.advance(500)
  supervisor.reopen('slow')
  await timers.advance(2000)
  assert.equal(source.reads, 1)
  assert.equal(supervisor.links()['slow']?.state, 'degraded')
  finish([['a', 'OK', 1, 'Cel']])
  await timers.advance(1000)
  assert.deepEqual(
    got.map(g => g.value),
    [2],
  )
  assert.equal(supervisor.links()['slow']?.state, 'up')
})

test('a failed sensor keeps its slot; a group without any value is degraded; NaN counts as failed', async () => {
  const { supervisor, timers, got } = rig()
  const source = new FakeSource('i2c', 1000)
  source.onRead = async n => [
    ['a', n < 3 ? 'OK' : 'ERROR', n < 3 ? 1 : null, 'Cel'],
    ['b', 'OK', n === 1 ? 5 : Number.NaN, 'Pa'],
  ]
  supervisor.add(source)
  await timers.advance(1000)
  assert.deepEqual(
    got.map(g => [g.status, g.value]),
    [
      ['OK', 1],
      ['OK', 5],
      ['OK', 1],
      ['ERROR', null],
    ],
  )
  assert.equal(supervisor.links()['i2c']?.state, 'up')
  await timers.advance(1000)
  assert.equal(got.length, 6)
  assert.equal(supervisor.links()['i2c']?.reason, 'no sensor answers')
})

test('a failing source gets one WARN line with the message of its driver, none on recovery, and one more for a new reason', async () => {
  const { supervisor, timers, lines } = rig()
  const source = new FakeSource('plc', 1000)
  const says = [
    '',
    'slave 1 is silent',
    'slave 1 is silent',
    '',
    '',
    'slave 2 is silent; a wire is loose',
    'a wire is loose',
  ]
  source.onRead = async n => {
    source.events!.degraded(says[n] ?? '')
    return [['a', 'ERROR', n === 1 || n === 2 || n === 5 ? null : n, 'Cel']]
  }
  supervisor.add(source)
  await timers.advance(0)
  assert.equal(supervisor.links()['plc']?.reason, 'slave 1 is silent')
  await timers.advance(2000)
  assert.equal(supervisor.links()['plc']?.state, 'up')
  await timers.advance(3000)
  assert.equal(supervisor.links()['plc']?.reason, 'a wire is loose')
  assert.deepEqual(
    lines.filter(line => /WARN/.test(line)).map(line => line.trim().replace(/.* plc: /, '')),
    ['degraded: slave 1 is silent', 'degraded: slave 2 is silent; a wire is loose'],
  )
})

test('a read that throws loses the group, which reopens after a backoff', async () => {
  const { supervisor, timers } = rig()
  const source = new FakeSource('hwmon', 1000)
  source.onRead = async n => {
    if (n === 2) throw new OsError('LINK_DOWN', 'the chip is gone')
    return [['a', 'OK', n, 'Cel']]
  }
  supervisor.add(source)
  await timers.advance(1000)
  assert.deepEqual(
    [supervisor.links()['hwmon']?.state, supervisor.links()['hwmon']?.reason],
    ['down', 'the chip is gone'],
  )
  await timers.advance(1000)
  assert.equal(supervisor.links()['hwmon']?.state, 'up')
  assert.deepEqual([source.opens, source.reads], [2, 3])
})

test('a source that is disabled or stopped is no longer read', async () => {
  const { supervisor, timers, got } = rig()
  const source = new FakeSource('cpu', 1000)
  supervisor.add(source)
  await timers.advance(1000)
  await supervisor.disable('cpu')
  await timers.advance(5000)
  assert.equal(got.length, 2)
  supervisor.enable('cpu')
  await timers.advance(0)
  assert.equal(got.length, 3)
  await supervisor.stop()
  await timers.advance(5000)
  assert.equal(got.length, 3)
  assert.equal(timers.pending, 0)
})

test('an exception in the consumer of the readings is counted, and the source continues', async () => {
  const { supervisor, timers } = rig()
  const source = new FakeSource('cpu', 1000)
  supervisor.onReadings(() => {
    throw new Error('disk full')
  })
  supervisor.add(source)
  await timers.advance(2000)
  assert.deepEqual([source.reads, supervisor.links()['cpu']?.errors, supervisor.links()['cpu']?.state], [3, 3, 'up'])
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

test('a source that reports due readings is read immediately, once more after a pending read, and not while it is down', async () => {
  const { timers, supervisor, got } = rig()
  const source = new FakeSource('s', 60_000)
  supervisor.add(source)
  await timers.advance(0)
  assert.equal(got.length, 1)
  source.events?.due?.()
  await timers.advance(0)
  assert.equal(got.length, 2)
  let answer: (rows: readonly SourceReading[]) => void = () => undefined
  source.onRead = () =>
    new Promise(resolve => {
      answer = resolve
    })
  for (let k = 0; k < 5; k++) source.events?.due?.()
  assert.equal(source.reads, 3)
  source.onRead = async n => [['a', 'OK', n, 'Cel']]
  answer([['a', 'OK', 3, 'Cel']])
  await timers.advance(0)
  assert.deepEqual([source.reads, got.length], [4, 4])
  const old = source.events
  await supervisor.disable('s')
  old?.due?.()
  await timers.advance(0)
  assert.equal(source.reads, 4)
})
