// The user's window for updates, and which updates the board installs automatically.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { checkAutomatic, checked, checkText, runsAlready } from '../../../src/update/automatic'
import { scheduleOf, windowEnd } from '../../../src/update/schedule'
import { beginTrial, giveUp, LastUpdates, wasRolledBack } from '../../../src/update/trial'
import { checkTime } from '../../../src/update/update-source'
import { at, card, running } from '../../lib/update-card'

const utc = (text: string): number => Date.parse(`${text}Z`)
const endOf = (time: string, days: string, now: string): string | undefined => {
  const end = windowEnd({ url: 'http://a/', time, days }, utc(now))
  return end === undefined ? undefined : new Date(end).toISOString().slice(0, 16)
}

test('a window lasts from its first minute to its last, over midnight too, on the days on which it begins', () => {
  assert.equal(endOf('02:00-05:00', '', '2026-11-24T01:59:59.999'), undefined)
  assert.equal(endOf('02:00-05:00', '', '2026-11-24T02:00'), '2026-11-24T05:00')
  assert.equal(endOf('02:00-05:00', '', '2026-11-24T04:59:59.999'), '2026-11-24T05:00')
  assert.equal(endOf('02:00-05:00', '', '2026-11-24T05:00'), undefined)
  // 2026-11-24 is a Tuesday
  assert.equal(endOf('02:00-05:00', 'mon,wed', '2026-11-24T03:00'), undefined)
  assert.equal(endOf('02:00-05:00', 'sun,tue', '2026-11-24T03:00'), '2026-11-24T05:00')
  assert.equal(endOf('22:30-04:00', 'mon', '2026-11-24T03:00'), '2026-11-24T04:00')
  assert.equal(endOf('22:30-04:00', 'mon', '2026-11-24T23:00'), undefined)
  assert.equal(endOf('22:30-04:00', 'tue', '2026-11-24T23:00'), '2026-11-25T04:00')
  assert.equal(endOf('22:30-04:00', 'sat', '2027-01-03T00:00'), '2027-01-03T04:00')
})

test('the lines of the script are a schedule; anything else is refused', () => {
  assert.deepEqual(
    scheduleOf(() => 'https://a/b.update\n02:00-05:00\nsun\n'),
    { url: 'https://a/b.update', time: '02:00-05:00', days: 'sun' },
  )
  for (const text of ['', 'file:///etc/passwd\n02:00-05:00\n\n', 'https://a/b\n\n'])
    assert.equal(
      scheduleOf(() => text),
      undefined,
    )
  const missing = (): string => {
    throw new Error('ENOENT')
  }
  assert.equal(scheduleOf(missing), undefined)
})

test('a rolled-back update is not installed automatically again, whatever was installed since; a newer build of it is', () => {
  const slots = card()
  const updates = new LastUpdates(at('back/last.json'))
  const update = (version: string, built: number) =>
    ({ list: { board: 'bench', version, built_at: built, partition_at: 0, parts: [] }, parts: [], size: 0 }) as const
  const trial = (version: string): void => {
    const installed = { version, built_at: 200, from: '1.0.0', slot: 'B', bytes: 1, fetched_bytes: 1, copied_bytes: 0 }
    beginTrial(slots, updates, { ...installed, slot: 'B' }, 1)
    // the boot loader counts down
    slots.activate('A')
    slots.tryOnce('B')
  }
  trial('1.2.0')
  assert.equal(giveUp(running('B', '1.2.0'), updates, 2), true)
  trial('1.1.0')
  slots.activate('A')
  assert.equal(updates.read()!.outcome, 'trial')
  assert.throws(() => checkAutomatic(update('1.2.0', 200), slots, updates), {
    code: 'E_UPDATE',
    message: '1.2.0 was tried on this board and rolled back',
  })
  checkAutomatic(update('1.2.0', 201), slots, updates)
  assert.equal(wasRolledBack(updates, { version: '1.1.0', built_at: 200 }), false)
  assert.throws(() => checkAutomatic(update('0.9.0', 200), slots, updates), {
    code: 'E_UPDATE',
    message: /has version 0\.9\.0/,
  })
  assert.equal(runsAlready(update('1.0.0', 100).list, slots), true)
  assert.equal(runsAlready(update('1.0.0', 101).list, slots), false)
})

test('a limited number of rolled-back updates is remembered, each once', () => {
  const updates = new LastUpdates(at('many/last.json'))
  card()
  const b = running('B', '2.0.0')
  for (let k = 0; k < 40; k++) {
    const version = `2.0.${k % 20}`
    updates.write({ ...updates.read(), version, from: '1.0.0', slot: 'B', outcome: 'trial', at: k })
    giveUp(b, updates, k)
  }
  const { went_back: names } = updates.read()!
  assert.equal(names!.length, 16)
  assert.deepEqual([names![0], names![15]], ['2.0.19 0', '2.0.4 0'])
})

test('the result of a check: installed, up to date, refused with the remedy, or interrupted by the network or the end of the window', async () => {
  const now = () => utc('2026-11-24T02:31')
  const look = async (install: () => Promise<undefined>) =>
    checkText(await checked('https://a/b.update', install, now)).replace(
      /^last check: 2026-11-24T02:31Z, https:\/\/a\/b\.update: /,
      '',
    )
  const fail = (error: Error) => () => Promise.reject(error)
  assert.equal(await look(async () => undefined), 'up to date')
  assert.equal(
    await look(fail(new OsError('E_UPDATE', 'this is not an os-node update', { hint: 'take another' }))),
    'refused, this is not an os-node update; take another',
  )
  assert.match(await look(fail(new OsError('E_UPDATE_SOURCE', 'the server answers 503'))), /^interrupted, the server/)
  const end = utc('2026-11-24T05:00')
  checkTime(end, end - 1)
  checkTime(undefined, end)
  assert.match(
    await look(async () => checkTime(end, end) as undefined),
    /^interrupted, the time .* ended at 05:00 UTC; /,
  )
  const installed = { version: '1.2.0', built_at: 1, from: '1.0.0', slot: 'B', bytes: 1, fetched_bytes: 1 } as const
  const done = await checked('x', async () => ({ ...installed, copied_bytes: 0 }), now)
  assert.deepEqual([done.result, done.detail], ['installed', '1.2.0'])
})
