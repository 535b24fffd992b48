// Traffic on every bus at the same time: GPIO, I2C, CAN, Modbus RTU and TCP, Bluetooth advertisements, a gateway by radio
// (LoRa) and boards with the C firmware by UART and CAN, all into one gateway, which forwards it by UDP to an upstream. An
// hour of such traffic at ten times its usual speed, in six minutes; OS_NODE_HOUR_SECONDS makes them fewer. In the middle
// third everything is unplugged once. At the end every reading is accounted for, and the gateway has not grown since a sixth
// of it.
// Needs: bluetooth
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { realFiles } from '../../src/lib/files'
import { exportFacts } from '../../src/log'
import { askControl } from '../lib/control'
import { keyOf, type LoggedFact, type LoggedSensor, Machine, sensorsOf, sleep, until } from '../lib/gateway'
import { assertPart, assertRising, runs } from '../lib/order'
import { growth, ProcessSize, type Sample } from '../lib/process-size'
import { Ptys } from '../lib/ptys'
import { QUARTER } from '../lib/random'
import { inTheRig } from '../lib/rig'
import { assertSame } from '../lib/same'
import { buildModel, Sx127x } from '../lib/sx127x'
import { type Link, SLAVE, SOURCES, sourcesOf, TOLD } from './everything'
import { BOARD_IDS, type Bus, buildSlave, CAN, DIR, Field, startSlave } from './field'

const SECONDS = Number(process.env.OS_NODE_HOUR_SECONDS ?? (QUARTER ? 150 : 360))
const WARM_UP = SECONDS / 6
const WEB = 8001
const log = { commit_interval_ms: 200 }
const air = { region: 'none', frequency_hz: 869_525_000, bandwidth_khz: 125, spreading_factor: 7 }
const physical_status = { lora: true, uart: true, can: true }

/** growth of the resident memory that is no leak: an open window of the SQL view (6 MB), machine code, garbage not collected yet */
const MORE_MB = 24

buildModel()
buildSlave()
new Ptys().close()

inTheRig(
  () => {
    const field = new Field()
    const sizes = new ProcessSize(DIR)
    let near: Sx127x
    let far: Sx127x
    let gateway: Machine
    let upstream: Machine
    let distant: Machine
    let endSlave: () => void
    let sampling: NodeJS.Timeout
    /** status of the gateway at the end of the hour, and how often its Modbus slave had answered by then */
    let last: Awaited<ReturnType<typeof status>>
    let answers = 0

    // biome-ignore lint/suspicious/noExplicitAny: whatever JSON the command gives
    const status = (machine: Machine): Promise<any> => askControl(machine.dataDir, 'status')
    /** The gateway has read everything that the devices of that bus sent so far. */
    const hasRead = async (bus: Bus): Promise<boolean> => {
      const { engine, bus: peers, wire, shed } = (await status(gateway)).links
      const { sent } = field
      if (bus === 'can') return engine.detail.frames === sent.frames && peers.rx === sent.isotp.length
      if (bus === 'serial') return wire.rx === sent.uart.length
      return bus === 'beacon' || shed.detail.edges === sent.pulses + sent.door.length - 1
    }
    field.settled = bus => until(`what was sent by ${bus} is read`, () => hasRead(bus))
    const logged = (machine: Machine): LoggedFact[] =>
      [...exportFacts(join(machine.dataDir, 'log'), 1, realFiles)] as LoggedFact[]

    before(async () => {
      await field.open()
      endSlave = await startSlave(SLAVE)
      near = await Sx127x.start('spidev0.0')
      far = await Sx127x.start('spidev0.1')
      upstream = new Machine(join(DIR, 'up'), 'serve', {
        device_id: 'UP',
        gateway: { sources: [], receivers: [{ name: 'in', medium: 'UDP', port: 9001 }], log },
        RESOURCES: { transport_status: { udp: true } },
      })
      gateway = new Machine(join(DIR, 'gateway'), 'run', {
        device_id: 'GW',
        gateway: {
          log,
          sources: sourcesOf(field),
          receivers: [
            { name: 'radio', medium: 'LoRa', ...near.wiring, ...air },
            { name: 'wire', medium: 'UART', port: field.boardPort },
            { name: 'bus', medium: 'CAN', interface: CAN, peers: [{ aid: 78, ...BOARD_IDS }] },
          ],
          uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: 9001 }],
        },
        RESOURCES: { physical_status, transport_status: { udp: true } },
      })
      distant = new Machine(join(DIR, 'distant'), 'run', {
        device_id: 'DISTANT',
        assigned_id: 9,
        gateway: {
          log,
          sources: [{ name: 'up', type: 'uptime', interval_ms: 1000 }],
          uplinks: [{ name: 'radio', medium: 'LoRa', ...far.wiring, ...air }],
        },
        RESOURCES: { physical_status: { lora: true } },
      })
      await sizes.within(async () => {
        await upstream.start(['--web-port', String(WEB)], WEB)
        await gateway.start([])
      })
      await distant.start(['--port', '8101'])
      await until('every link is up', async () =>
        Object.values((await status(gateway)).links).every(link => (link as { state: string }).state !== 'opening'),
      )
      field.run()
      sampling = setInterval(() => {
        for (const [name, { pid }] of Object.entries({ gateway, upstream, distant })) if (pid) sizes.sample(name, pid)
      }, 5000)
    })
    after(async () => {
      clearInterval(sampling)
      for (const machine of [distant, gateway, upstream]) await machine?.stop('SIGKILL')
      endSlave?.()
      await near?.stop()
      await far?.stop()
      await field.close()
    })

    test('an hour, in the middle of which each bus is unplugged once: the others are not affected', async t => {
      const began = performance.now()
      const pass = (share: number): Promise<void> =>
        sleep(Math.max(0, began + share * SECONDS * 1000 - performance.now()))
      const outage = async (what: string, links: string[], out: () => unknown, back: () => unknown): Promise<void> => {
        const those = async (): Promise<Link[]> => {
          const all = (await status(gateway)).links
          return links.map(name => all[name])
        }
        const before: Record<string, Link> = (await status(gateway)).links
        const from = performance.now()
        const others = async (): Promise<[string, Link][]> =>
          Object.entries<Link>((await status(gateway)).links).filter(([name]) => !links.includes(name))
        await out()
        const down = await until(`${what}: reported`, async () => {
          const all = await those()
          return all.every(({ state }) => state === 'down') ? all : null
        })
        down.forEach(({ reason }, k) => {
          assert.match(reason!, TOLD[links[k]!]!)
        })
        await sleep(SECONDS * 10)
        await until(`${what}: all others are still read`, async () =>
          (await others()).every(([name, { reads }]) => reads === undefined || reads > before[name]!.reads! + 10),
        )
        await back()
        await until(`${what}: back`, async () => (await those()).every(({ state }) => /up|degraded/.test(state)))
        const seconds = (performance.now() - from) / 1000
        for (const [name, link] of await others()) {
          assert.equal(link.opens, before[name]!.opens, `${what} touched ${name}: ${link.last_error}`)
          assert.match(link.state, /up|degraded/, name)
        }
        const after = await status(gateway)
        t.diagnostic(
          `${what}: gone for ${seconds.toFixed(1)} s; ${links.map(n => after.links[n].last_error).join('; ')}`,
        )
      }
      await pass(0.33)
      await outage('the CAN bus', ['engine', 'bus'], field.unplugCan, field.plugCan)
      field.resume('can')
      await pass(0.42)
      await outage('the serial ports', ['meter', 'wire'], field.unplugSerial, field.plugSerial)
      field.resume('serial')
      await pass(0.5)
      await outage('the GPIO chip', ['shed'], field.unplugPins, field.plugPins)
      field.resume('pins')
      await pass(0.58)
      await outage('the Bluetooth adapter', ['beacon'], field.unplugBeacon, field.plugBeacon)
      field.resume('beacon')
      await pass(1)
      await field.rest()
      for (const bus of ['can', 'serial', 'pins'] as const) await field.settled(bus)
      await sleep(2000)
      clearInterval(sampling)
      // before this process has so much to read that its Modbus slave is slow
      last = await until('all are up', async () => {
        answers = field.sent.answers
        const now = await status(gateway)
        return Object.keys(TOLD).every(name => now.links[name].state === 'up') ? now : null
      })
      for (const name of ['gateway', 'upstream', 'distant']) {
        const s = sizes.of(name)
        t.diagnostic(`${name} ${JSON.stringify(s[0])} ${JSON.stringify(s.at(-1))}`)
      }
    })

    test('every reading is in the log once, with the values of the devices', async t => {
      const now = last
      const end = now.log.last_seq
      await until('it is on disk', async () => (await status(gateway)).log.committed_seq >= end)
      const facts = logged(gateway).filter(fact => (fact.seq as number) <= end)
      const rows = (first: string): LoggedSensor[][] => facts.map(sensorsOf).filter(sensors => sensors[0]?.id === first)
      const own = Object.entries(SOURCES).map(([name, first]) => [name, rows(first).length] as const)
      for (const [name, count] of own) assert.equal(count, now.links[name].reads, `readings of ${name}`)
      const received = facts.filter(fact => fact.medium !== 'local').length
      assert.equal(received, now.received.facts)
      assert.equal(facts.length, received + own.reduce((sum, [, count]) => sum + count, 0))
      t.diagnostic(`${facts.length} facts in ${SECONDS} s: ${own.map(pair => pair.join(' ')).join(', ')}`)

      const { sent } = field
      const values = (first: string, k = 0): (number | null)[] => rows(first).map(row => row[k]!.value)
      const seen = (first: string, k = 0): number[] => runs(values(first, k))
      assertRising(seen('pulses'))
      const { edges, missed_edges } = now.links.shed.detail
      assert.equal(edges, sent.pulses + sent.door.length - 1)
      // on a busy machine the kernel may have dropped some: they are identified by their numbers, and counted
      assert.ok(missed_edges <= edges / 100, `${missed_edges} edges missed`)
      assert.equal(seen('pulses').at(-1), sent.pulses)
      assert.deepEqual([seen('Count').at(-1), now.links.engine.detail.frames], [sent.frames, sent.frames])
      assertRising(seen('Count'))
      const energy = values('energy').filter(value => value !== null)
      assertRising(energy)
      // an answer that was too late, or was on the line when it was cut
      const { requests, timeouts, damaged } = now.links.meter.detail
      const lost = requests - timeouts - damaged - energy.length
      assert.ok(lost >= 0 && lost <= 2, `${energy.length} readings of ${requests} requests, ${timeouts} timed out`)
      assert.ok(energy.length <= sent.answers && energy.at(-1)! >= answers - timeouts - 2)
      const [right, failed] = [
        [3, 6, 150],
        [null, null, null],
      ]
      const plc = rows('h1').map(row => row.map(({ value }) => value))
      for (const row of plc) assert.deepEqual(row, row[0] === null ? failed : right)
      // on a busy machine an answer may be too late
      const late = plc.filter(([value]) => value === null).length
      assert.ok(late <= now.links.plc.detail.timeouts, `${late} readings without an answer`)
      for (const [first, k, all] of [
        ['chip', 0, sent.degrees],
        ['beacon_count', 0, sent.advertised],
        ['pulses', 1, sent.door],
      ] as const) {
        const found = seen(first, k)
        assertPart(found, runs(all), first)
        t.diagnostic(`${first}: ${found.length} of ${runs(all).length} states of the device were read`)
        // not more than it was read, because a very busy machine skips turns
        const most = Math.min(runs(all).length, values(first, k).length)
        assert.ok(found.length > 0.25 * most, `${first}: ${found.length} of ${most}`)
      }
      assert.deepEqual(values('U1'), sent.uart, 'the board by UART')
      assert.deepEqual(values('C1'), sent.isotp, 'the board by CAN')
    })

    test('everything from a gateway by radio is received', async () => {
      const facts = logged(distant)
      const keys = new Set(facts.map(keyOf))
      const heard = (): LoggedFact[] => logged(gateway).filter(fact => keys.has(keyOf(fact)))
      const got = await until('everything arrived', () => (heard().length >= facts.length ? heard() : null)).catch(
        async error => {
          const there = new Set(heard().map(keyOf))
          const missing = facts.filter(fact => !there.has(keyOf(fact)))
          const [{ received }, { uplinks, links, forwarding }] = await Promise.all([gateway, distant].map(status))
          throw new Error(
            `${error.message}: ${JSON.stringify({ missing, received, uplinks, links, forwarding }, null, 1)}`,
          )
        },
      )
      assertSame(facts, got)
      assert.ok(facts.length > 20, `${facts.length}`)
    })

    test('the upstream has all of it once, with the same values, and nothing was dropped in between', async t => {
      const facts = logged(gateway)
      const keys = new Set(facts.map(keyOf))
      const ours = (): LoggedFact[] => logged(upstream).filter(fact => keys.has(keyOf(fact)))
      const got = await until('the upstream has it', () => (ours().length >= facts.length ? ours() : null))
      assertSame(facts, got)
      const byKey = new Map(got.map(fact => [keyOf(fact), sensorsOf(fact)]))
      let most = 0
      for (const fact of facts)
        sensorsOf(fact).forEach(({ value }, k) => {
          const other = byKey.get(keyOf(fact))![k]!.value
          most = Math.max(most, Math.abs((value ?? 0) - (other ?? 0)))
        })
      assert.ok(most <= 1e-3, `a value is off by ${most}`)
      const all = logged(upstream)
      await until('the gateway has all that the upstream has', () => {
        const known = new Set(logged(gateway).map(keyOf))
        return all.every(fact => known.has(keyOf(fact)))
      })
      const [here, there] = await Promise.all([gateway, upstream].map(status))
      for (const { dropped, log, storage, received } of [here, there]) {
        // packets too late for their template were requested again
        const expected = { rows: 0, packets: received.late_dropped, records: 0 }
        assert.deepEqual(dropped, expected, JSON.stringify({ received, log }))
        for (const key of ['lost', 'dropped', 'overflow', 'refused', 'damaged', 'torn']) assert.equal(log[key], 0, key)
        assert.equal(storage.refused + storage.left, 0)
        for (const key of ['malformed', 'too_large', 'not_allowed', 'templates_forgotten'])
          assert.equal(received[key], 0, key)
      }
      assert.deepEqual([here.uplinks.up.refused, here.uplinks.up.abandoned], [0, 0])
      for (const [name, link] of Object.entries<Link>({ ...here.links, ...there.links })) {
        assert.equal(link.dropped ?? 0, 0, name)
        for (const key of ['queue_full', 'rx_broken', 'noise_bytes', 'short', 'incomplete'])
          assert.equal(link.detail?.[key] ?? 0, 0, `${name} ${key}`)
      }
      t.diagnostic(`${facts.length} facts upstream, off by ${most} at most; ${here.uplinks.up.resent} sent again`)
    })

    test('neither gateway nor upstream has grown', t => {
      for (const name of ['gateway', 'upstream']) {
        const samples = sizes.of(name, WARM_UP)
        const [first, last] = [samples[0]!, samples.at(-1)!]
        const grown = (of: (sample: Sample) => number): number => growth(samples, of)
        const [rss, heap, outside] = [grown(s => s.rssMb), grown(s => s.heapMb), grown(s => s.externalMb)]
        t.diagnostic(
          `${name}: ${first.rssMb.toFixed(1)} to ${last.rssMb.toFixed(1)} MB (${rss.toFixed(1)}), heap ${first.heapMb.toFixed(2)} to ` +
            `${last.heapMb.toFixed(2)} MB (${heap.toFixed(2)}), outside ${outside.toFixed(2)} MB; ${first.fds} to ${last.fds} descriptors, ` +
            `${first.threads} to ${last.threads} threads; ${(((last.cpu - first.cpu) / (last.at - first.at)) * 100).toFixed()} % of the processor`,
        )
        const every = Math.ceil(samples.length / 12)
        t.diagnostic(
          `${name}: heap ${samples
            .filter((_, k) => k % every === 0)
            .map(s => s.heapMb.toFixed(2))
            .join(' ')}; resident ${samples
            .filter((_, k) => k % every === 0)
            .map(s => s.rssMb.toFixed(0))
            .join(' ')}`,
        )
        if (SECONDS < 300) continue // too short to distinguish growth from warm-up
        assert.ok(heap < 1, `the heap of ${name} grew by ${heap.toFixed(2)} MB`)
        assert.ok(rss < MORE_MB, `${name} grew by ${rss.toFixed(1)} MB`)
        // briefly opened files are not in all of them
        const least = (of: (sample: Sample) => number, from: Sample[]): number => Math.min(...from.map(of))
        for (const [what, of] of [
          ['descriptors', (s: Sample) => s.fds],
          ['threads', (s: Sample) => s.threads],
        ] as const) {
          const [then, now] = [least(of, samples.slice(0, 6)), least(of, samples.slice(-6))]
          assert.ok(Math.abs(now - then) <= 1, `${name}: ${then} to ${now} ${what}`)
        }
      }
    })

    test('a link that works again still shows its last error', async () => {
      const { links } = last
      for (const [name, told] of Object.entries(TOLD)) {
        assert.equal(links[name].state, 'up', name)
        // or, on a busy machine, an error since then
        assert.match(links[name].last_error, new RegExp(`${told.source}|a read takes longer`))
      }
      assert.match(gateway.run('status').stdout, /bus +up .* last error (\d+ min )?\d+ (s|min) ago: vcan0/)
    })
  },
  { memory: 2048, seconds: SECONDS + 1000 },
)
