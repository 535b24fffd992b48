// Two gateways with a radio each, with the built program: readings of one are logged by the other, acknowledged (X29), with
// signal and noise; packets of C firmware and of dispatch are received; faults of a chip lose no reading.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
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

const SECONDS = 1_710_001_234
const value = (x: number): string => peerText(BigInt(Math.round(x * 10_000)))
const slots = (mask: number, ...texts: string[]): Buffer =>
  Buffer.concat([Buffer.of(mask), ...texts.flatMap(text => [Buffer.of(text.length), Buffer.from(text)])])

/** packets of the C library, one second apart, each with its decoded values: times in seconds, value x 10 000 */
const firmware: readonly (readonly [Buffer, number, number])[] = [
  [
    peerFrame(0x3f, [77], 2, SECONDS, `FX.ONLINE.${SECONDS}|T>OK.K:${value(294.5)}|P>OK.Pa:${value(101_325)}|`),
    294.5,
    101_325,
  ],
  [peerFrame(0xaa, [77], 2, SECONDS + 1, slots(0b10, value(295.25))), 295.25, 101_325],
  [peerFrame(0x7f, [77], 2, SECONDS + 2, ''), 295.25, 101_325],
]

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
          // its hardware is declared once, in physical_config
          uplinks: [{ name: 'radio', medium: 'LoRa' }],
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
    const from = async (id: string): Promise<LoggedFact[]> => (await upstream.facts()).filter(fact => fact.id === id)
    const tell = async (error: Error): Promise<never> => {
      const states = await Promise.all([gateway, upstream].map(status))
      const short = states.map(({ links, uplinks, received }) => ({ links, uplinks, received }))
      throw new Error(`${error.message}\n${JSON.stringify(short, null, 1)}\n${gateway.output}\n${upstream.output}`)
    }
    const delivered = async (): Promise<void> => {
      const { log } = await status(gateway)
      await until('all is acknowledged', async () => (await status(gateway)).forwarding.cursor >= log.last_seq).catch(
        tell,
      )
    }

    test('readings are logged upstream with signal and noise, and acknowledged', async () => {
      await far.command('link -80 6.5 0')
      await until('facts arrive', async () => (await status(upstream)).log.last_seq >= 3).catch(tell)
      await delivered()
      const { medium, rssi, snr } = (await from('NEAR')).at(-1)!
      assert.deepEqual([medium, snr], ['LoRa', 6.5])
      assert.ok(Math.abs(Number(rssi) + 80) <= 1, String(rssi))
      const { uplinks } = await status(gateway)
      assert.equal(uplinks.radio.delivery, 'acked', JSON.stringify(uplinks))
    })

    test('R18: faults of either chip, and lost packets, lose no reading', async () => {
      await far.command('deafen')
      await near.command('flip 1e 5')
      await far.command('lose 3')
      const { log } = await status(gateway)
      await until('more readings', async () => (await status(gateway)).log.committed_seq >= log.last_seq + 3)
      const logged = (await gateway.facts()).map(({ t_raw }) => t_raw)
      let seen: unknown[] = []
      await delivered()
      const missing = async (): Promise<unknown[]> => {
        seen = (await from('NEAR')).map(({ t_raw }) => t_raw)
        return logged.filter(t => !seen.includes(t))
      }
      await until('every one of them is logged upstream', async () => (await missing()).length === 0).catch(tell)
      assert.equal(new Set(seen).size, seen.length, 'each once')
    })

    test('status of the link shows signal, errors, and the used share of the budget', async () => {
      const { links } = await status(upstream)
      const { detail } = links.radio
      assert.ok(Math.abs(detail.last_rssi_dbm + 80) <= 1, JSON.stringify(detail))
      assert.equal(detail.last_snr_db, 6.5)
      assert.ok(detail.fault_deaf >= 1 && detail.duty_used_percent > 0, JSON.stringify(detail))
      const { stdout } = upstream.run('status')
      assert.match(stdout, /last_rssi_dbm -\d+/)
      assert.match(stdout, /duty_used_percent [\d.]+/)
    })

    test('dispatch uses the shared radio of the running gateway, and its own if none runs', async () => {
      const arrives = async (sensor: string): Promise<void> => {
        const ran = gateway.run('transmit', '--medium', 'LoRa', '--sensors', `[["${sensor}","OK",21.5,"Cel"]]`)
        assert.equal(ran.code, 0, ran.stdout + ran.stderr)
        const fact = await until('it is logged', async () =>
          (await from('NEAR')).find(({ s1_id }) => s1_id === sensor),
        ).catch(tell)
        assert.deepEqual([fact.s1_v, fact.medium], [294.65, 'LoRa'])
      }
      await arrives('D1')
      await gateway.stop()
      const book = join(gateway.dataDir, 'lora', 'spidev0.0.json')
      const stopped = readFileSync(book, 'utf8')
      await arrives('D2')
      assert.notEqual(readFileSync(book, 'utf8'), stopped, 'what it sent is booked too')
    })

    // the gateway has stopped: the air is free
    test('frames of C firmware received by radio are decoded and logged: FULL, DIFF and HEART', async () => {
      for (const [k, [frame, T, P]] of firmware.entries()) {
        const logged = async (): Promise<LoggedFact | undefined> => {
          await far.command(`hear ${frame.toString('hex')}`)
          await new Promise(resolve => setTimeout(resolve, 1000))
          return (await from('FX')).find(({ t_raw }) => t_raw === (SECONDS + k) * 1000)
        }
        const fact = await until(`frame ${k} is logged`, logged)
        assert.deepEqual([fact.s1_id, fact.s1_v, fact.s1_u, fact.s2_v], ['T', T, 'K', P])
        assert.deepEqual([fact.medium, fact.snr], ['LoRa', 6.5])
      }
    })
  },
  { memory: 1024 },
)
