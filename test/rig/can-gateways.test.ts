// Gateways on a CAN bus: two os-node gateways as peers of a third, classic and FD, a board with the C firmware on the same bus,
// and packets sent with dispatch. Everything logged on one side arrives, is logged, acknowledged and counted on the other.
// Needs: can
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { realFiles } from '../../src/lib/files'
import { exportFacts } from '../../src/log'
import { askControl } from '../lib/control'
import { keyOf, type LoggedFact, Machine, sensorsOf, sleep, until } from '../lib/gateway'
import { peerFrame, peerText } from '../lib/peer'
import { inTheRig, tool } from '../lib/rig'
import { assertSame } from '../lib/same'

const DIR = '/run/can'
const physical_status = { can: true }
const logged = (machine: Machine): LoggedFact[] =>
  [...exportFacts(join(machine.dataDir, 'log'), 1, realFiles)] as LoggedFact[]

inTheRig(() => {
  tool('ip', 'link', 'add', 'vxcan0', 'mtu', '72', 'type', 'vxcan', 'peer', 'name', 'vxcan1')
  for (const name of ['vxcan0', 'vxcan1']) tool('ip', 'link', 'set', name, 'mtu', '72', 'up')

  // the hub's own ids are below 0x200
  const hub = new Machine(join(DIR, 'hub'), 'serve', {
    assigned_id: 1,
    gateway: {
      log: { commit_interval_ms: 200 },
      receivers: [
        {
          name: 'bus',
          medium: 'CAN',
          interface: 'vxcan1',
          peers: [
            { aid: 11, tx_id: '0x111', rx_id: '0x211' },
            { aid: 12, tx_id: '0x112', rx_id: '0x212', fd: true },
            { aid: 77, tx_id: '0x177', rx_id: '0x277' },
            { aid: 13, tx_id: '0x113', rx_id: '0x213' },
          ],
        },
      ],
    },
    RESOURCES: { physical_status },
  })
  /** A gateway with its own readings. */
  const gateway = (aid: number, ids: Record<string, unknown>, more: Record<string, unknown> = {}): Machine =>
    new Machine(join(DIR, `node${aid}`), 'run', {
      assigned_id: aid,
      device_id: `NODE-${aid}`,
      gateway: {
        log: { commit_interval_ms: 200 },
        sources: ['cpu', 'memory'].map(type => ({ name: type, type, interval_ms: 250 })),
        uplinks: [{ name: 'bus', medium: 'CAN', interface: 'vxcan0', peers: [ids], full_every: 10 }],
      },
      RESOURCES: { physical_status, ...more },
    })
  const classic = { tx_id: '0x211', rx_id: '0x111' }
  const nodes = [
    // dispatch uses the same pair as the uplink
    gateway(11, classic, { physical_config: { can: { interface: 'vxcan0', peers: [classic] } } }),
    gateway(12, { tx_id: '0x212', rx_id: '0x112', fd: true }),
  ]
  const status = (machine: Machine) => askControl(machine.dataDir, 'status')
  before(async () => {
    await hub.start(['--web-port', '8001'], 8001)
    await Promise.all(nodes.map((node, k) => node.start(['--port', String(8100 + k)])))
  })
  after(async () => {
    for (const machine of [...nodes, hub]) await machine.stop('SIGKILL')
  })

  const deliveredAll = async (node: Machine): Promise<number> => {
    const { log } = await status(node)
    const tell = async (error: Error): Promise<never> => {
      const { uplinks, links, forwarding } = await status(node)
      const at = (await status(hub)).links
      throw new Error(`${error.message} ${JSON.stringify({ uplinks, links, forwarding, at }, null, 1)} ${node.output}`)
    }
    await until('delivered', async () => (await status(node)).forwarding.cursor >= log.last_seq).catch(tell)
    const sent = logged(node)
    const keys = new Set(sent.map(keyOf))
    const got = await until('the hub has them', () => {
      const facts = logged(hub).filter(fact => keys.has(keyOf(fact)))
      const all = new Set(facts.map(keyOf))
      return sent.filter(fact => fact.t_raw < Date.now() - 3000).every(fact => all.has(keyOf(fact))) ? facts : null
    })
    const there = new Set(got.map(keyOf))
    assertSame(
      sent.filter(fact => there.has(keyOf(fact))),
      got,
    )
    return got.length
  }

  test('facts of gateways arrive over classic and FD frames, once, and are acknowledged', async t => {
    await until('they have logged enough', () => nodes.every(node => logged(node).length > 20))
    await sleep(3000)
    for (const node of nodes) {
      const count = await deliveredAll(node)
      assert.ok(count > 10, `${count}`)
      const { uplinks, links } = await status(node)
      assert.equal(uplinks.bus.delivery, 'acked')
      assert.equal(links.bus.state, 'up')
      t.diagnostic(`${count} facts; ${JSON.stringify(links.bus)}`)
    }
    const { links } = await status(hub)
    assert.deepEqual([links.bus.state, links.bus.errors], ['up', 0])
  })

  test('frames of the C firmware over isotpsend are decoded and logged: FULL, DIFF and HEART', async () => {
    const now = Math.floor(Date.now() / 1000)
    const single = peerFrame(0x3f, [77], 2, now, `T1|A01|${peerText(215_000n)}`)
    const body = `NODE.ONLINE.${now}|P1>OK.900:${peerText(1_013_250_000n)}|H1>OK.C00:${peerText(450_000n)}|`
    const multi = peerFrame(0x3f, [77], 3, now + 1, body)
    // of the second, one second after the other: its first value has changed, then none has
    const text = Buffer.from(peerText(1_014_000_000n))
    const diff = peerFrame(0xaa, [77], 3, now + 2, Buffer.concat([Buffer.of(2, text.length), text]))
    const heart = peerFrame(0x7f, [77], 3, now + 3, '')
    for (const packet of [single, multi, diff, heart]) {
      const input = `${packet.toString('hex').replace(/../g, '$& ')}\n`
      const ran = spawnSync('isotpsend', ['-s', '277', '-d', '177', '-p', '00:00', 'vxcan0'], { input })
      assert.equal(ran.status, 0)
    }
    const facts = await until('all are logged', () => {
      const found = logged(hub).filter(fact => sensorsOf(fact).some(s => /^[TPH]1$/.test(s.id)))
      return found.length === 4 ? found : null
    })
    assert.deepEqual(
      facts.flatMap(sensorsOf).map(({ id, unit, value }) => [id, unit, value]),
      [
        ['T1', 'K', 294.65],
        ['P1', 'Pa', 101_325],
        ['H1', '%', 45],
        ['P1', 'Pa', 101_400],
        ['H1', '%', 45],
        ['P1', 'Pa', 101_400],
        ['H1', '%', 45],
      ],
    )
    assert.deepEqual(
      facts.map(fact => Math.floor(fact.t_raw / 1000) - now),
      [0, 1, 2, 3],
    )
  })

  test('dispatch sends over the pair of the uplink, and over its own pair', async () => {
    const own = new Machine(join(DIR, 'own'), 'run', {
      assigned_id: 13,
      device_id: 'HAND-13',
      RESOURCES: {
        physical_status,
        physical_config: { can: { interface: 'vxcan0', peers: [{ aid: 1, tx_id: '0x213', rx_id: '0x113' }], peer: 1 } },
      },
    })
    for (const machine of [nodes[0]!, own]) {
      const ran = machine.run('transmit', '--medium', 'CAN', '--sensors', '[["X1","OK",42.5,"V"]]')
      assert.equal(ran.code, 0, ran.stderr + ran.stdout)
    }
    const from = await until('both are logged', () => {
      const found = logged(hub).filter(fact => sensorsOf(fact).some(s => s.id === 'X1'))
      return found.length === 2 ? found.map(fact => fact.id) : null
    })
    assert.deepEqual(from.sort(), ['HAND-13', 'NODE-11'])
  })

  test('a bus that goes down and returns: the link says why it is down, and waiting packets are delivered', async () => {
    tool('ip', 'link', 'set', 'vxcan0', 'down')
    const link = await until('down', async () => {
      const { links } = await status(nodes[0]!)
      return links.bus.state === 'down' && links.bus
    })
    assert.match(link.reason, /^vxcan0 is down: systemctl start os-node-can@vxcan0/)
    await sleep(1500)
    tool('ip', 'link', 'set', 'vxcan0', 'up')
    await until('up', async () => (await status(nodes[0]!)).links.bus.state === 'up')
    for (const node of nodes) await deliveredAll(node)
    await until('the hub is up', async () => (await status(hub)).links.bus.state === 'up')
  })
})
