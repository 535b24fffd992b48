// R18: the duty cycle is never exceeded, in any window, in any band of the region table, also over restarts.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { DutyBook } from '../../../../drivers/lora/airtime-file'
import { DutyCycle } from '../../../../drivers/lora/duty'
import { BANDS, type Limit, REGIONS } from '../../../../drivers/lora/region'
import { realFiles } from '../../../../src/lib/files'
import { silentLogger } from '../../../../src/lib/logger'
import { ManualClock } from '../../../lib/manual'
import { prng } from '../../../lib/random'
import { mostSent, type Sending } from './fake'

/** Sends as often as allowed, with random intervals and lengths; the transmissions end a little late, as real ones do. */
function drive(limits: readonly Limit[], seed: number, hours: number, greedy: boolean): Sending[] {
  const random = prng(seed)
  const duty = new DutyCycle(limits)
  const longest = Math.min(...limits.map(({ budgetMs }) => budgetMs), 5000)
  const sent: Sending[] = []
  for (let now = 1000; now < hours * 3_600_000; ) {
    const ms = Math.max(1, longest * random() ** 3)
    const at = duty.readyAt(ms, now, random() < 0.5 ? 1 : 0.85)
    assert.ok(at >= now && Number.isFinite(at))
    assert.equal(duty.readyAt(ms, at) <= at, true, 'then it may')
    duty.spend(ms, at)
    const from = at + random() * 3
    const to = from + ms
    duty.ended(to + random() * 5)
    sent.push({ from, to })
    now = to + 5 + (greedy ? 0 : random() ** 4 * 600_000)
  }
  return sent
}

for (const region of REGIONS.filter(name => name !== 'none'))
  for (const band of BANDS[region].bands.filter(({ limits }) => limits.length > 0))
    test(`R18: ${region} ${band.name}: no window ever contains more than its budget, and a greedy sender gets nearly all of it`, () => {
      for (const greedy of [true, false]) {
        const sent = drive(band.limits, 7 + band.fromHz, greedy ? 3 : 30, greedy)
        for (const { windowMs, budgetMs } of band.limits) {
          const worst = mostSent(sent, windowMs)
          assert.ok(worst <= budgetMs + 1e-6, `${worst} of ${budgetMs} ms`)
          if (greedy) assert.ok(worst > budgetMs * 0.6, `${worst} of ${budgetMs} ms`)
        }
      }
    })

test('a packet longer than the full budget is never allowed, one that fits is allowed immediately', () => {
  const duty = new DutyCycle([{ windowMs: 20_000, budgetMs: 400 }])
  assert.equal(duty.readyAt(401, 5), Number.POSITIVE_INFINITY)
  assert.equal(duty.readyAt(400, 5), 5)
  duty.spend(300, 5)
  assert.equal(duty.readyAt(100, 400), 400)
  assert.equal(duty.readyAt(101, 400), 305 + 20_000 - 101)
  assert.equal(new DutyCycle([]).readyAt(1e9, 7), 7)
})

test('a transmission counts to the millisecond at which its window ends', () => {
  const duty = new DutyCycle([{ windowMs: 20_000, budgetMs: 400 }])
  duty.spend(400, 5)
  assert.deepEqual([duty.readyAt(400, 20_004), duty.readyAt(400, 20_005)], [20_005, 20_005])
  assert.equal(duty.usage(20_404)?.usedMs, 400)
  assert.equal(duty.usage(20_405)?.usedMs, 0)
})

const world = (t: TestContext) => {
  const dir = mkdtempSync(join(tmpdir(), 'lora-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const path = join(dir, 'lora', 'radio.json')
  const clock = new ManualClock()
  const start = (band = 'x') => {
    const duty = new DutyCycle([{ windowMs: 3_600_000, budgetMs: 36_000 }])
    const book = new DutyBook({ path, band, duty, budgetMs: 36_000, clock, files: realFiles, logger: silentLogger })
    book.load()
    const send = (ms: number): void => {
      duty.spend(ms, clock.mono())
      book.spent(ms, clock.mono())
      clock.advance(ms)
    }
    return { duty, book, send, used: () => duty.usage(clock.mono())!.usedMs }
  }
  return { path, clock, start }
}

test('R18: airtime used counts after a restart: exactly after a stop, and never less after a kill', t => {
  const { clock, start } = world(t)
  const first = start()
  for (let k = 0; k < 10; k++) first.send(1000)
  const killed = start()
  assert.ok(killed.used() >= 10_000 && killed.used() <= 10_000 + 3600, `${killed.used()}`)
  killed.book.close(clock.mono())
  first.book.close(clock.mono())
  const again = start()
  assert.equal(again.used(), 10_000)
  assert.equal(start('another band').used(), 0)
  clock.advance(3_600_000)
  assert.equal(start().used(), 0)
})

test('a radio that switches between bands keeps the airtime used in each', t => {
  const { clock, start } = world(t)
  const [here, there] = [start('here'), start('there')]
  for (const { send, book } of [here, there, here]) {
    send(2000)
    book.close(clock.mono())
  }
  assert.deepEqual([start('here').used(), start('there').used()], [4000, 2000])
})

test('a clock set back makes no entry older, and a damaged file counts as a full budget', t => {
  const { path, clock, start } = world(t)
  const first = start()
  first.send(20_000)
  first.book.close(clock.mono())
  clock.wallMs -= 86_400_000
  assert.equal(start().used(), 20_000)
  writeFileSync(path, '{"x":')
  assert.equal(start().used(), 36_000)
  writeFileSync(path, '{"x":{"at":0,"reserved_ms":"no","spent":[]}}')
  assert.equal(start().used(), 36_000)
})

test('the airtime file is written about twenty times per budget', t => {
  const { path, start } = world(t)
  const { send } = start()
  let written = 0
  let last = ''
  for (let k = 0; k < 360; k++) {
    send(100)
    const text = realFiles.read(path).toString()
    if (text !== last) written++
    last = text
  }
  assert.equal(written, 19)
  // a twentieth counts as used until the next write
  assert.equal(JSON.parse(last).x.reserved_ms, 1800)
})
