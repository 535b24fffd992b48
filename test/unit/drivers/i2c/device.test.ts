// One chip as the probe of a source: when it is set up, what its failures become, and who may use it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChipIo, ChipProbe } from '../../../../drivers/i2c/device'
import { OsError } from '../../../../src/lib/errors'

const events = { lost: () => undefined, degraded: () => undefined }

/** A probe on a bus that records its transfers; the chip reads two bytes from register 5 for two channels. */
function probe(name = 'a', places: number[] = [1, 0], path = '/nowhere/i2c-9') {
  const world = {
    said: [] as string[],
    got: 2,
    fails: undefined as OsError | undefined,
    opened: 0,
    gate: Promise.resolve(),
  }
  const bus = {
    transfer: async (address: number, write: Uint8Array | null, read: Uint8Array | null, deadlineMs: number) => {
      world.said.push(`${address} ${write?.join() ?? '-'} ${read?.length ?? '-'} ${deadlineMs}`)
      if (world.fails) throw world.fails
      return world.got
    },
    close: () => {
      world.opened--
    },
  }
  const openBus = async () => {
    await world.gate
    world.opened++
    return bus as never
  }
  const chip = {
    setUp: async (io: ChipIo) => {
      world.said.push('set up')
      await io.write(1, 2)
    },
    sample: async (io: ChipIo) => {
      const [x, y] = await io.read(5, 2)
      return [x, y].map((value, k) => ({ value: value! + k, raw: `${k}` }))
    },
  }
  return { world, probe: new ChipProbe(chip, { name, path, address: 0x40, places, openBus }) }
}

test('a chip is set up once, and again after a failure, which is an error of its own channels only', async () => {
  const { world, probe: one } = probe()
  await assert.rejects(one.sample(), { code: 'LINK_DOWN', message: /0x40 is closed/ })
  await one.open(events)
  assert.deepEqual(world.said.splice(0), ['set up', '64 1,2 - 1000'])
  assert.deepEqual(await one.sample(), [
    { value: 1, raw: '1' },
    { value: 0, raw: '0' },
  ])
  assert.deepEqual(world.said.splice(0), ['64 5 2 1000'])
  for (const code of ['NO_REPLY', 'NOT_FOUND'] as const) {
    world.fails = new OsError(code, 'gone')
    const failed = { value: null, raw: '', error: 'gone' }
    assert.deepEqual(await one.sample(), [failed, failed])
    world.fails = undefined
    world.said.length = 0
    await one.sample()
    await one.sample()
    assert.deepEqual(world.said.splice(0), ['set up', '64 1,2 - 1000', '64 5 2 1000', '64 5 2 1000'])
  }
  world.got = 1
  assert.match((await one.sample())[0]!.error!, /1 bytes instead of 2/)
  world.got = 2
  world.fails = new OsError('BUS_STUCK', 'stuck')
  await assert.rejects(one.sample(), { code: 'BUS_STUCK' })
  await one.close()
  assert.equal(world.opened, 0)
})

test('one source owns a chip until it is closed; an opening that failed or was too late leaves nothing behind', async () => {
  const [first, second] = [probe('first'), probe('second')]
  await first.probe.open(events)
  await first.probe.open(events)
  await assert.rejects(second.probe.open(events), { code: 'CONFIG_INVALID', message: /0x40 is read by first already/ })
  await second.probe.close()
  await assert.rejects(second.probe.open(events), { code: 'CONFIG_INVALID', message: /read by first/ })
  await first.probe.close()
  second.world.fails = new OsError('NO_REPLY', 'nobody')
  await assert.rejects(second.probe.open(events), { code: 'NO_REPLY', message: /nobody/ })
  assert.equal(second.world.opened, 0)
  await first.probe.open(events)
  await first.probe.close()

  let go = (): void => undefined
  second.world.fails = undefined
  second.world.gate = new Promise(resolve => {
    go = resolve
  })
  const opening = second.probe.open(events)
  await second.probe.close()
  go()
  await assert.rejects(opening, { code: 'LINK_DOWN', message: /closed while opening/ })
  assert.equal(second.world.opened, 0)
  await assert.rejects(second.probe.sample(), { code: 'LINK_DOWN', message: /is closed/ })
})
