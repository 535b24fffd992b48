// Two gateways with a radio each, through the built program: what one reads the other logs, acknowledged (X29), with signal and
// noise; packets of C firmware and of dispatch are received; faults of a chip cost no reading.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { askControl } from '../lib/control'
import { type LoggedFact, Machine, until } from '../lib/gateway'
import { peerFrame, peerText } from '../lib/peer'
import { inTheRig } from '../lib/rig'
import { buildModel, Sx127x } from '../lib/sx127x'

const air = {
  region: 'EU868',
  frequency_hz: 869_525_000,
  bandwidth_khz: 125,
  spreading_factor: 7,
  check_interval_ms: 500,
}

/** FULL of the C library: `id|unit|value × 10 000 in Base62`, its time in seconds */
const firmware = peerFrame(0x3f, [77], 2, 1_710_001_234, `T9|K|${peerText(2_945_000n)}`)

buildModel()

inTheRig(
  () => {
    let near: Sx127x
    let far: Sx127x
    let gateway: Machine
    let upstream: Machine
    before(async () => {
      near = await Sx127x.start('spidev0.0')
      far = await Sx127x.start('spidev0.1')
      const flags = { physical_status: { lora: true } }
      gateway = new Machine('/run/gateway', 'run', {
        device_id: 'NEAR',
        assigned_id: 7,
        RESOURCES: { ...flags, physical_config: { lora: { ...near.wiring, ...air } } },
        gateway: {
          sources: [{ name: 'up', type: 'uptime', interval_ms: 2000 }],
          uplinks: [{ name: 'radio', medium: 'LoRa', ...near.wiring, ...air }],
          log: { commit_interval_ms: 200 },
        },
      })
      upstream = new Machine('/run/upstream', 'serve', {
        device_id: 'FAR',
        assigned_id: 1,
        RESOURCES: flags,
        gateway: {
          receivers: [{ name: 'radio', medium: 'LoRa', ...far.wiring, ...air }],
          log: { commit_interval_ms: 200 },
        },
      })
      await upstream.start(['--web-port', '8001'])
      await gateway.start([])
    })
    after(async () => {
      await gateway.stop('SIGKILL')
      await upstream.stop('SIGKILL')
      await near.stop()
      await far.stop()
    })

    // biome-ignore lint/suspicious/noExplicitAny: whatever JSON the command gives
    const status = (machine: Machine): Promise<any> => askControl(machine.dataDir, 'status')
    const from = (id: string): LoggedFact[] => upstream.logFacts().filter(fact => fact.id === id)
    const tell = async (error: Error): Promise<never> => {
      const states = await Promise.all([gateway, upstream].map(status))
      const short = states.map(({ links, uplinks, received }) => ({ links, uplinks, received }))
      throw new Error(`${error.message}\n${JSON.stringify(short, null, 1)}\n${gateway.output}\n${upstream.output}`)
    }
    const delivered = async (): Promise<void> => {
      const { log } = await status(gateway)
      await until(
        'all is acknowledged',
        async () => (await status(gateway)).forwarding.cursor >= log.last_seq,
        40_000,
      ).catch(tell)
    }

    test('readings are logged upstream with signal and noise, and acknowledged', async () => {
      await far.command('link -80 6.5 0')
      await until('facts arrive', () => from('NEAR').length >= 3, 40_000).catch(tell)
      await delivered()
      const { medium, rssi, snr } = from('NEAR').at(-1)!
      assert.deepEqual([medium, snr], ['LoRa', 6.5])
      assert.ok(Math.abs(Number(rssi) + 80) <= 1, String(rssi))
      const { uplinks } = await status(gateway)
      assert.equal(uplinks.radio.delivery, 'acked', JSON.stringify(uplinks))
    })

    test('R18: faults of either chip, and lost packets, cost no reading', async () => {
      await far.command('deafen')
      await near.command('flip 1e 5')
      await far.command('lose 3')
      await new Promise(resolve => setTimeout(resolve, 6000))
      await delivered()
      const seen = from('NEAR')
      const logged = gateway.logFacts()
      assert.ok(seen.length >= logged.length - 2, `${seen.length} of ${logged.length}`)
      assert.equal(new Set(seen.map(({ t_raw }) => t_raw)).size, seen.length, 'each once')
    })

    test('a frame of C firmware that comes in by radio is decoded and logged', async () => {
      // a radio that is sending does not hear it
      const logged = async (): Promise<LoggedFact | undefined> => {
        await far.command(`hear ${firmware.toString('hex')}`)
        await new Promise(resolve => setTimeout(resolve, 700))
        return upstream.logFacts().find(({ s1_id }) => s1_id === 'T9')
      }
      const fact = await until('it is logged', logged).catch(tell)
      assert.deepEqual([fact.s1_v, fact.s1_u], [294.5, 'K'])
    })

    test('dispatch goes over the shared radio of the running gateway', async () => {
      const before = near.sent().length
      const ran = gateway.json('transmit', '--medium', 'LoRa', '--sensors', '[["D1","OK",21.5,"Cel"]]')
      assert.equal(ran.ok ?? ran.sent ?? true, true, JSON.stringify(ran))
      await until('it is on the air', () => near.sent().length > before)
    })
  },
  { seconds: 240, memory: 1024 },
)
