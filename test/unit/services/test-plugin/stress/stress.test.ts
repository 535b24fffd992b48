import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { BUILT_IN_CORES, type CoreTable } from '../../../../../src/services/test-plugin/cores'
import { bars } from '../../../../../src/services/test-plugin/plot'
import { runStress } from '../../../../../src/services/test-plugin/stress'
import { Histogram } from '../../../../../src/services/test-plugin/stress/histogram'
import { STRESS_DEFAULTS } from '../../../../../src/services/test-plugin/stress/options'
import type { ShareResult } from '../../../../../src/services/test-plugin/stress/share'
import { summaryOf } from '../../../../../src/services/test-plugin/stress/summary'
import { crc16 } from '../../../../../src/wire/crc'

const script = join(process.env.OS_NODE_TEST_ROOT ?? process.cwd(), 'dist/os-node.js')
const parts = { script }
const pure = BUILT_IN_CORES.pycore!

/** A core whose packets are changed before they are sent. */
const bending = (bend: (packet: Buffer, n: number) => Buffer): CoreTable => ({
  pycore: settings => {
    const core = pure(settings)
    let n = 0
    const { transmitFast } = core
    return Object.assign(core, {
      transmitFast: (...args: Parameters<typeof transmitFast>) => bend(transmitFast.apply(core, args), n++),
    })
  },
})

test('the defaults of the specification: 200 packets, 8 lanes of 6 devices, pure core', async () => {
  const [summary, fail] = await runStress({}, parts)
  assert.equal(fail, 0)
  const { ok, total, workers, sources, batch_size, processes, threads_per_process, chain_mode, core } = summary
  assert.deepEqual(
    { ok, total, workers, sources, batch_size, processes, threads_per_process, chain_mode, core },
    {
      ok: 200,
      total: 200,
      workers: 8,
      sources: 6,
      batch_size: 1,
      processes: 1,
      threads_per_process: null,
      chain_mode: 'core',
      core: 'pycore',
    },
  )
  // each device of each lane begins with a FULL
  assert.deepEqual(summary.packets, { full: 48, diff: 152, heart: 0 })
  assert.equal(summary.header_probe.enabled, false)
  assert.ok(summary.throughput_pps > 0 && summary.duration_s > 0)
  assert.ok(summary.min_latency_ms <= summary.p50_latency_ms && summary.p50_latency_ms <= summary.max_latency_ms)
})

test('threads and processes send every packet once, however they are distributed', async () => {
  for (const more of [
    { threads_per_process: 2 },
    { processes: 2 },
    { processes: 2, threads_per_process: 2, workers: 3, batch_size: 16 },
  ]) {
    const [summary, fail] = await runStress({ total: 501, sources: 2, chain_mode: 'e2e_inproc', ...more }, parts)
    assert.deepEqual([summary.ok, fail, summary.errors], [501, 0, {}], JSON.stringify(more))
    assert.equal(summary.packets.full + summary.packets.diff, 501)
    assert.ok(summary.overlap > 0 && summary.overlap <= 4)
    assert.equal(
      summary.latency_steps.reduce((sum, { packets }) => sum + packets, 0),
      501,
    )
  }
})

test('with every precision packets are decoded with their values', async () => {
  for (let precision = 0; precision <= 10; precision++)
    for (const chain_mode of ['e2e_inproc', 'e2e_loopback'] as const) {
      const [summary, fail] = await runStress({ total: 400, chain_mode }, { ...parts, precision })
      assert.deepEqual([summary.ok, fail, summary.errors], [400, 0, {}], `${chain_mode} with ${precision}`)
    }
})

test('over UDP on the loopback every packet is received with its values', async () => {
  const [summary, fail] = await runStress({ total: 300, chain_mode: 'e2e_loopback', header_probe_rate: 1 }, parts)
  assert.deepEqual([summary.ok, fail, summary.errors], [300, 0, {}])
  assert.deepEqual(summary.header_probe, { enabled: true, rate: 1, attempted: 300, ok: 300, failed: 0 })
})

test('in batches, both cores send the same packets as one by one', async () => {
  const settings = { total: 700, workers: 2, sources: 3, chain_mode: 'e2e_inproc', header_probe_rate: 1 } as const
  const [single] = await runStress({ ...settings, core_backend: 'pycore' }, parts)
  for (const core_backend of ['pycore', 'rscore'])
    for (const batch_size of [2, 300]) {
      const [summary, fail] = await runStress({ ...settings, core_backend, batch_size }, parts)
      assert.deepEqual([summary.ok, fail, summary.errors], [700, 0, {}])
      assert.deepEqual([summary.bytes, summary.packets], [single.bytes, single.packets])
    }
})

test('a round of several packets is made of batches of at most 256; a wrong packet in a batch fails', async () => {
  const sizes: number[] = []
  const cores: CoreTable = {
    pycore: settings => {
      const core = pure(settings)
      const { take, stage } = core
      let staged = 0
      return Object.assign(core, {
        transmitFast: () => assert.fail('not in a batch'),
        stage: (...args: Parameters<typeof stage>) => {
          if (++staged === 3) throw new Error('no room')
          return stage.apply(core, args)
        },
        take: () => {
          const packets = take.call(core)
          if (sizes.push(packets.length) === 1) packets[5]![5]! ^= 1
          return packets
        },
      })
    },
  }
  const run = { total: 600, workers: 1, sources: 1, batch_size: 300, header_probe_rate: 1 }
  const [{ errors, ok }, fail] = await runStress(run, { ...parts, cores })
  assert.deepEqual(sizes, [255, 44, 256, 44])
  assert.deepEqual([ok, fail, errors], [598, 2, { 'no room': 1, 'header: CRC-16 is wrong': 1 }])
})

test('the header probe checks its share of packets and finds a wrong header', async () => {
  const cores = bending((packet, n) => (n === 3 ? Buffer.concat([packet.subarray(0, -1), Buffer.of(0)]) : packet))
  const [half] = await runStress({ total: 100, header_probe_rate: 0.25, batch_size: 7 }, parts)
  assert.equal(half.header_probe.attempted, 25)
  const [summary, fail] = await runStress({ total: 100, header_probe_rate: 1 }, { ...parts, cores })
  assert.equal(fail, 1)
  assert.deepEqual(summary.errors, { 'header: CRC-16 is wrong': 1 })
  assert.equal(summary.header_probe.failed, 1)
})

test('the header probe reports every part of a header that differs from the requested one', async () => {
  const cases: [at: number, value: number, why: string][] = [
    [0, 0x01, 'header: no data command'],
    [1, 9, 'header: incomplete'],
    [5, 0xee, 'header: another AID'],
    [6, 0xff, 'header: TID out of range'],
    [12, 0xee, 'header: another time'],
  ]
  for (const [at, value, why] of cases) {
    const cores = bending((packet, n) => {
      if (n !== 7) return packet
      const bent = Buffer.from(packet)
      bent[at] = value
      bent.writeUInt16BE(crc16(bent, 0, bent.length - 2), bent.length - 2)
      return bent
    })
    const [{ errors }, fail] = await runStress(
      { total: 10, workers: 1, sources: 1, header_probe_rate: 1 },
      { ...parts, cores },
    )
    assert.deepEqual([errors, fail], [{ [why]: 1 }, 1])
  }
})

test('a thread or process that dies ends the run with an error', async () => {
  const dead = join(mkdtempSync(join(tmpdir(), 'os-node-stress-')), 'dead.js')
  writeFileSync(dead, 'process.exit(3)')
  for (const more of [{ processes: 2 }, { threads_per_process: 2 }])
    await assert.rejects(runStress(more, { script: dead }), { code: 'INTERNAL', message: /ended: .*3/ })
  rmSync(dirname(dead), { recursive: true })
})

test('a packet that cannot be decoded fails end to end, not in mode core', async () => {
  const cores = bending((packet, n) => {
    if (n !== 60) return packet
    const bad = Buffer.from(packet)
    bad[bad.length - 1]! ^= 1
    return bad
  })
  assert.equal((await runStress({}, { ...parts, cores }))[1], 0)
  const [summary, fail] = await runStress({ chain_mode: 'e2e_inproc' }, { ...parts, cores })
  assert.equal(fail, 1)
  assert.match(Object.keys(summary.errors)[0]!, /BAD_PACKET/)
})

test('with more devices than templates or rings every packet is still right', async () => {
  const [summary, fail] = await runStress({ total: 3000, workers: 2, sources: 700, chain_mode: 'e2e_inproc' }, parts)
  assert.deepEqual([summary.ok, fail, summary.errors], [3000, 0, {}])
})

test('a core that throws is counted with its reason', async () => {
  const cores = bending((packet, n) => {
    if (n % 2 === 1) throw new Error('no room')
    return packet
  })
  const [summary, fail] = await runStress({ total: 20, workers: 1 }, { ...parts, cores })
  assert.deepEqual([summary.ok, fail, summary.errors], [10, 10, { 'no room': 10 }])
})

test('rscore required but missing: nothing is sent and all packets fail; requested by name, it is an error', async () => {
  const [summary, fail] = await runStress({ require_rust: true }, parts)
  assert.deepEqual([summary.ok, summary.fail, fail], [0, 200, 200])
  assert.match(summary.error!, /rscore is required and pycore is active/)
  await assert.rejects(runStress({ core_backend: 'other' }, parts), {
    code: 'NOT_FOUND',
    message: /"other" is not available \(it is not built in\); there is pycore, rscore/,
  })
  const kept = Object.getOwnPropertyDescriptor(globalThis, 'WebAssembly')!
  Reflect.deleteProperty(globalThis, 'WebAssembly')
  try {
    const without = { ...parts, cores: { pycore: pure } }
    await assert.rejects(
      runStress({ core_backend: 'rscore' }, without),
      /not available \(this Node runs without WebAssembly\)/,
    )
  } finally {
    Object.defineProperty(globalThis, 'WebAssembly', kept)
  }
  const [other] = await runStress({ total: 10 }, { ...parts, configured: 'other' })
  assert.deepEqual([other.core, other.ok], ['pycore', 10])
  assert.equal(other.note, 'the configured core other is not available (it is not built in); pycore made the packets')
  const alone = { ...parts, cores: { pycore: pure }, configured: 'rscore' }
  assert.match((await runStress({ total: 10 }, alone))[0].note!, /^the configured core rscore is not available/)
  const [refused] = await runStress({ require_rust: true }, alone)
  assert.equal(refused.error, 'rscore is required and pycore is active (it is not built in); built in: pycore')
  assert.equal(summary.note, undefined)
  const [both, none] = await runStress({ require_rust: true, core_backend: 'rscore' }, parts)
  assert.deepEqual([both.core, both.ok, none], ['rscore', 200, 0])
})

test('a number out of range is refused with its name and range', async () => {
  await assert.rejects(runStress({ total: 0 }, parts), {
    code: 'BAD_REQUEST',
    message: /total must be .* 1–1000000000/,
  })
  await assert.rejects(runStress({ header_probe_rate: 2 }, parts), /header_probe_rate must be a number 0–1/)
  await assert.rejects(runStress({ chain_mode: 'far' as 'core' }, parts), /chain_mode must be one of core, e2e_inproc/)
  await assert.rejects(runStress({ threads_per_process: 0 }, parts), /threads_per_process/)
})

test('a signal ends a run, in this process and in others', async () => {
  for (const processes of [1, 2]) {
    const stop = new AbortController()
    const run = runStress({ total: 1e9, processes }, { ...parts, signal: stop.signal })
    setTimeout(() => stop.abort(), 300)
    const [summary] = await run
    assert.equal(summary.cancelled, true)
    assert.ok(summary.ok < 1e9)
  }
})

test('percentiles of merged parts are within their step', () => {
  const all = new Histogram()
  for (let part = 0; part < 4; part++) {
    const one = new Histogram()
    for (let k = 1; k <= 1000; k++) one.add((part * 1000 + k) / 1000)
    all.merge(one.parts())
  }
  assert.equal(all.count, 4000)
  assert.ok(Math.abs(all.mean - 2.0005) < 1e-9)
  assert.deepEqual([all.min, all.max], [0.001, 4])
  for (const share of [0.01, 0.5, 0.95, 0.999]) {
    const right = share * 4
    assert.ok(Math.abs(all.percentile(share) - right) <= right * 0.07 + 1e-6, `${share}: ${all.percentile(share)}`)
  }
  assert.equal(new Histogram().percentile(0.5), 0)
})

test('a plot has a bar for every power of two from the fastest packet to the slowest', () => {
  const histogram = new Histogram()
  assert.deepEqual(histogram.steps(), [])
  for (const [ms, times] of [
    [1.5e-6, 1],
    [3e-6, 80],
    [12e-6, 40],
  ] as const)
    histogram.add(ms, times)
  const steps = histogram.steps()
  assert.deepEqual(
    steps.map(({ up_to_ms, packets }) => [Math.round(up_to_ms * 1e6), packets]),
    [
      [2, 1],
      [4, 80],
      [8, 0],
      [16, 40],
    ],
  )
  const rows = steps.map(({ packets }, k): [string, number] => ['x'.repeat(k), packets])
  assert.deepEqual(bars(rows, '/s'), [
    `      |#${' '.repeat(39)}| 1/s`,
    `    x |${'#'.repeat(40)}| 80/s`,
    `   xx |${' '.repeat(40)}| 0/s`,
    `  xxx |${'#'.repeat(20)}${' '.repeat(20)}| 40/s`,
  ])
  assert.deepEqual(bars([]), [])
})

test('the overlap of a run is the average number of its parts working at the same time', () => {
  const part = (startedAt: number, endedAt: number) =>
    ({ ok: 1, errors: {}, latency: new Histogram().parts(), startedAt, endedAt }) as unknown as ShareResult
  assert.equal(summaryOf(STRESS_DEFAULTS, 'pycore', [part(0, 10), part(5, 15), part(5, 15)]).overlap, 2)
  assert.equal(summaryOf(STRESS_DEFAULTS, 'pycore', []).overlap, 0)
})
