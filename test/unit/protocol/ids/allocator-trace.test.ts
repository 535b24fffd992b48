// What allocators answer, write and report over a long run of requests, silence, restarts and damage, compared with
// allocator-trace.txt: each world has another range, policy and limit, and its own seed.
import { test } from 'node:test'
import { createLogger } from '../../../../src/lib/logger'
import { IdAllocator, type IdAllocatorOptions } from '../../../../src/protocol/ids/allocator'
import { FileIdStore } from '../../../../src/protocol/ids/id-store'
import { leasePolicy } from '../../../../src/protocol/ids/lease'
import { IdQuotas } from '../../../../src/protocol/ids/quota'
import { IdService } from '../../../../src/protocol/ids/service'
import { ManualClock } from '../../../lib/manual'
import { dice, digest, outcome, Trace } from '../../../lib/trace'
import { MemFiles } from '../../log/memfiles'

const trace = new Trace('unit/protocol/ids/allocator-trace.txt')
const PATH = '/data/id_allocation.json'

const WORLDS: Record<string, IdAllocatorOptions> = {
  'a small range': { startId: 3, endId: 40, leasePolicy: { base_lease_seconds: 1800, min_lease_seconds: 60 } },
  'a crowd': {
    startId: 1,
    endId: 5000,
    maxReleased: 256,
    leasePolicy: {
      ...{ offline_hold_days: 0.5, min_lease_seconds: 30, rate_window_seconds: 600 },
      ...{ high_rate_threshold_per_hour: 90, ultra_rate_threshold_per_hour: 400, ultra_rate_sustain_seconds: 120 },
    },
  },
  'little memory': { startId: 0, maxBytes: 12_000, leasePolicy: { base_lease_seconds: 4000, adaptive_enabled: false } },
  'granted ids': { startId: 2, endId: 1, leasePolicy: { base_lease_seconds: 900, ultra_force_release: false } },
  'the end of all ids': { startId: 4_294_967_200, leasePolicy: { base_lease_seconds: 600, high_rate_min_factor: 0.7 } },
}

const NAMES = ['device_id', 'mac', 'uuid', 'serial', 'hw', 'device_key']

test('every world behaves as recorded', async () => {
  for (const [name, options] of Object.entries(WORLDS)) {
    const { below, chance, pick } = dice(name.length)
    const files = new MemFiles()
    const clock = new ManualClock(1_710_000_000_000)
    const lines: string[] = []
    const metrics: unknown[] = []
    let ids: IdAllocator
    let quotas: IdQuotas
    let service: IdService
    const start = (): void => {
      ids = new IdAllocator(
        { ...options, metricsSink: said => metrics.push({ ...said }) },
        {
          store: new FileIdStore(PATH, files),
          now: () => Math.floor(clock.wall() / 1000),
          mono: () => clock.mono(),
        },
      )
      const logger = createLogger({ write: line => void lines.push(line.slice(25)) })
      quotas = new IdQuotas(ids, clock, logger)
      service = new IdService(quotas, clock, () => Math.floor(clock.wall() / 1000))
    }
    start()
    const meta = (): Record<string, unknown> => {
      const device = { [pick(NAMES)]: `n${below(90)}` }
      return chance(0.1)
        ? {}
        : chance(0.2)
          ? { device_meta: device, v: below(3) }
          : { ...device, note: 'x'.repeat(below(40)) }
    }
    const address = (): string =>
      pick(['10.0.0.1:5', '10.0.0.2:6', '10.0.0.2:7', `10.1.0.${below(30)}:9`, '[fd00::1]:3', 'hci0'])
    const frame = (cmd: number, seq: number, body: unknown, head: number[] = []): Buffer =>
      Buffer.concat([Buffer.from([cmd, seq >> 8, seq & 255, ...head]), Buffer.from(JSON.stringify(body))])
    const answer = ({
      result,
      response,
    }: {
      result: Record<string, unknown>
      response: Uint8Array | null
    }): unknown => {
      assigned = Number(result['assigned_id'] ?? (result['pool'] as number[])?.[0] ?? assigned)
      return [result, response && Buffer.from(response).toString('hex')]
    }
    const someId = (): number => (options.startId ?? 1) + below(60)
    let last: [number, string] = [0, '']
    let assigned = 0
    let asked: [Buffer, unknown] = [Buffer.of(1, 0, 0, 0x7b, 0x7d), null]
    const steps: (() => unknown)[] = [
      () => answer(service.onRequest(frame(1, (last = [below(9), address()])[0], meta()), last[1])),
      () => answer(service.onRequest(frame(1, (last = [below(999), address()])[0], meta()), last[1].split(':'))),
      () => answer(service.onPoolRequest(frame(3, (last = [below(99), address()])[0], {}, [0, below(40)]), last[1])),
      () => service.onAck(...last),
      () => answer(service.onRequest(...(asked = [frame(1, below(9), meta()), pick([null, undefined, 7, 'a:1'])]))),
      () => answer(service.onRequest(...asked)),
      () => clock.advance(pick([1, 4999, 7500, 15_000])),
      () => quotas.mayAnswer(last[1], pick([1, 900, 4096, 4097, 60_000])),
      () => quotas.touch(someId(), chance(0.8) ? address() : null),
      () => quotas.touch(assigned, last[1]),
      () => ids.allocateId(meta()),
      () => ids.offerId(meta(), 30 + below(200)),
      () => ids.allocatePool(below(5), chance(0.5) ? meta() : null),
      () => ids.confirm([someId(), someId()], chance(0.5)),
      () => ids.releaseId(someId(), chance(0.4)),
      () => ids.releasePool([someId(), someId()], chance(0.5)),
      () => ids.touch(someId(), chance(0.5) ? address() : null),
      () => [ids.reclaimExpired(), ids.offered, ids.takenBack],
      () => ids.grant([someId(), someId() + 60, 0, 1.5], 60 + below(4000)),
      () => [ids.grantsLeft, ids.addressOf(someId()), ids.isOffered(someId()), ids.getMeta(someId())],
      () => clock.advance(below(400) * 1000),
      () => chance(0.1) && clock.advance(3_000_000 * below(4)),
      () => chance(0.2) && (clock.wallMs += (below(3) - 1) * 7_200_000),
    ]
    for (let k = 0; k < 750; k++) {
      let seen = 0
      for (let n = 0; n < 3; n++) seen = digest(seen, Buffer.from(outcome(pick(steps))))
      // the writes of one turn
      await Promise.resolve()
      if (k % 9 === 0) await ids!.commit().catch(() => undefined)
      if (k % 30 === 29) {
        const { lease_metrics: rates, ...now } = ids!.stats()
        trace.say(`${name} ${k}`, [
          seen,
          now.total_allocated,
          now.total_released,
          now.next_candidate,
          now.bytes,
          now.refused,
        ])
        trace.say('  metrics', [rates, metrics.length, digest(0, Buffer.from(JSON.stringify(metrics)))])
        trace.say('  quotas', quotas!.report())
        trace.say('  files', [
          files.operations,
          files.syncs,
          ...files.list('/data').map(file => [file, files.size(`/data/${file}`)]),
        ])
      }
      if (k % 150 !== 149) continue
      await ids!.settled()
      const before = digest(0, Buffer.from(JSON.stringify(ids!.dump())))
      if (chance(0.5)) ids!.stop()
      const journal = `${PATH}.journal`
      if (chance(0.4) && files.exists(journal) && files.size(journal) > 40)
        files.truncate(journal, files.size(journal) - 1 - below(30))
      start()
      if (chance(0.5)) await ids!.start()
      trace.say(`${name} started`, [
        before,
        digest(0, Buffer.from(JSON.stringify(ids!.dump()))),
        ids!.stats().total_allocated,
        lines.splice(0),
      ])
    }
  }

  const odd = [null, {}, { offline_hold_days: 2 }, { base_lease_seconds: '77', min_lease_seconds: ' 9 ' }]
  const values = [-1, 0, 0.5, 1e12, 'x', '', null, true, '12.7']
  const keys = Object.keys(leasePolicy())
  for (const policy of [...odd, ...keys.flatMap(key => values.map(value => ({ [key]: value })))])
    trace.say(JSON.stringify(policy), Object.values(leasePolicy(policy)))
  trace.compare()
})
