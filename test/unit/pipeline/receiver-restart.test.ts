// What a receiver knows after a start: templates of a clean stop, of the registry, and those from before an unclean stop (X33, R32).
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { clock, code, diff, frame, full, heart, receiver, T0, value } from './receiver-world'

test('after a clean stop templates are used again, once; otherwise a HEART needs a FULL', () => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-receiver-'))
  const first = receiver({ registryDir: dir })
  first.receive(full(T0, '1'))
  first.receive(diff(T0 + 1, '7'))
  assert.equal(code(receiver({ registryDir: dir }).receive(heart(T0 + 2))), 'NEED_FULL', 'no clean stop')
  first.save()
  const second = receiver({ registryDir: dir })
  assert.equal(value(second.receive(heart(T0 + 2))), 0.0007)
  assert.equal(code(second.receive(heart(T0))), 'LATE_DROPPED', 'the time of the state was kept')
  assert.equal(code(receiver({ registryDir: dir }).receive(heart(T0 + 3))), 'NEED_FULL', 'the mark was used up')
  second.save()
  writeFileSync(second.registry!.path(42), '{"aid": "42", "templates": {"01": {"sig"')
  const third = receiver({ registryDir: dir })
  assert.equal(code(third.receive(heart(T0 + 4))), 'NEED_FULL', 'a torn file costs a FULL only')
  assert.equal(third.registry!.errors, 1)
  rmSync(dir, { recursive: true, force: true })
})

test('in a run whose packets were acknowledged, a FULL from before teaches nothing after a restart', () => {
  const r = receiver()
  const first = r.receive(full(T0 + 10, '1'), 5)
  assert.ok(first.kind === 'fact')
  const again = receiver()
  again.remember({ ...first.fact, tRaw: T0 + 20 })
  const stale = again.receive(full(T0 + 10, '1'), 5)
  assert.deepEqual([value(stale), stale.meta.late, stale.meta.template_learned], [0.0001, true, false])
  assert.equal(code(again.receive(diff(T0 + 30, '2'), 5)), 'NEED_FULL')
  assert.equal(again.receive(full(T0 + 10, '1')).meta.template_learned, true, 'bare frames are never acknowledged')
  assert.equal(again.receive(full(T0 + 10, '1', 'other'), 5).meta.template_learned, true, 'another content')
  assert.equal(again.receive(full(T0 + 20, '1'), 6).meta.template_learned, true, 'the newest one again does')
  const back = T0 - 3_600_000
  for (let k = 0; k < 9; k++) again.receive(full(back + k, '2'), 7)
  assert.equal(value(again.receive(diff(back + 9, '3'), 7)), 0.0003, 'a clock set back is believed after a while')
})

test('only bare templates are stored in the registry', () => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-receiver-'))
  const first = receiver({ registryDir: dir })
  first.receive(full(T0, '1'), 5)
  first.save()
  const second = receiver({ registryDir: dir })
  assert.deepEqual(
    [code(second.receive(heart(T0 + 1), 5)), code(second.receive(heart(T0 + 1)))],
    ['NEED_FULL', 'NEED_FULL'],
  )
  rmSync(dir, { recursive: true, force: true })
})

test('after an unclean stop a DIFF gives only its own values, a HEART nothing, until a FULL (X33)', () => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-rebuilt-'))
  const text = (state: string, unit: string): string => `42;D.1.AY4j8UwA|a>${state}.${unit}:1|b>K.K:2|c>K.K:3|`
  const slots = (mask: number[], ...texts: string[]): Buffer =>
    Buffer.concat([Buffer.from(mask), ...texts.map(slot => Buffer.concat([Buffer.of(slot.length), Buffer.from(slot)]))])
  for (const spillDir of [undefined, join(dir, 'spill')]) {
    const options = { registryDir: join(dir, spillDir ? 'a' : 'b'), ...(spillDir && { spillDir }) }
    const before = receiver(options)
    before.receive(frame(0x3f, 1, T0, text('K', 'A01')))
    clock.advance(1000)
    // the unit of a changes without a FULL: the file must not keep the old one
    before.receive(frame(0xaa, 1, T0 + 1, slots([0b000011], 'E.mA', '1')))
    let after = receiver(options)
    const read = (packet: Buffer): unknown[] => {
      const got = after.receive(packet)
      if (got.kind === 'error') return [got.code, got.meta.template_rebuilt]
      assert.equal(got.meta.template_rebuilt, got.needFull || undefined)
      return got.fact.sensors.map(({ id, status, unit, value: x }) => `${id} ${status} ${x} ${unit}`)
    }
    assert.deepEqual(read(heart(T0 + 2)), ['NEED_FULL', true])
    assert.deepEqual(read(frame(0xaa, 1, T0 + 3, slots([0b100010], 'Z', '7'))), [
      'a ERROR 0.0000061 A',
      'c OK 0.0007 K',
    ])
    assert.deepEqual(read(heart(T0 + 4)), ['NEED_FULL', true], 'one DIFF does not make the values known')
    assert.deepEqual(read(frame(0xaa, 1, T0 + 5, slots([0b000100], 'W.Pa'))), ['NEED_FULL', true], 'a unit alone')
    assert.deepEqual(read(frame(0xaa, 1, T0 + 6, slots([0b001000], '5'))), ['b W 0.0005 Pa'], 'which is kept')
    assert.deepEqual(
      read(frame(0xaa, 1, T0 + 3, slots([0b001000], '9'))),
      ['LATE_DROPPED', undefined],
      'its units at that time are not known',
    )
    for (const [what, body] of [
      ['a longer mask', slots([0, 0b000010], '1')],
      ['a bit of no slot', slots([0b1000010], '1', '2')],
      ['a slot too many', slots([0b000010], '1', '2')],
      ['a slot too few', slots([0b001010], '1')],
      ['a text that is no unit', slots([0b000001], 'x|y')],
    ] as const)
      assert.deepEqual(read(frame(0xaa, 1, T0 + 7, body)), ['NEED_FULL', true], what)
    after.save()
    after = receiver(options)
    assert.deepEqual(read(frame(0xaa, 1, T0 + 8, slots([0b000010], '2'))), ['a ERROR 2e-7 A'], 'after a clean stop too')
    assert.deepEqual(read(frame(0x3f, 1, T0 + 9, text('K', 'K'))).length, 3)
    assert.deepEqual(read(frame(0xaa, 1, T0 + 10, slots([0b000010], '2'))).length, 3, 'a FULL ends it')
    assert.deepEqual(read(heart(T0 + 11)).length, 3)
    const run = after.receive(frame(0xaa, 1, T0 + 12, slots([0b000010], '2')), 5)
    assert.ok(
      run.kind === 'error' && run.needFull && !run.meta.template_rebuilt,
      'nothing of it counts in the exchange',
    )
  }
  rmSync(dir, { recursive: true, force: true })
})
