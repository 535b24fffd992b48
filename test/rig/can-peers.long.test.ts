// A hub receives from three gateways at the same time on one bus, each by its own pair of ids. One of them has a second
// uplink, to one of the others, which is active while the hub is off. All is acknowledged, nothing is logged twice.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { realFiles } from '../../src/lib/files'
import { exportFacts } from '../../src/log'
import { askControl } from '../lib/control'
import { keyOf, type LoggedFact, Machine, until } from '../lib/gateway'
import { inTheRig, tool } from '../lib/rig'
import { assertSame } from '../lib/same'

const DIR = '/run/peers'
const physical_status = { can: true }
const log = { commit_interval_ms: 200 }
const logged = (machine: Machine): LoggedFact[] =>
  [...exportFacts(join(machine.dataDir, 'log'), 1, realFiles)] as LoggedFact[]

inTheRig(() => {
  tool('ip', 'link', 'add', 'vxcan0', 'type', 'vxcan', 'peer', 'name', 'vxcan1')
  for (const name of ['vxcan0', 'vxcan1']) tool('ip', 'link', 'set', name, 'up')

  const receivers = (to: number, from: readonly number[]): object[] => [
    {
      name: 'bus',
      medium: 'CAN',
      interface: to === 1 ? 'vxcan1' : 'vxcan0',
      peers: from.map(aid => ({ aid, tx_id: 0x100 * to + aid, rx_id: 0x100 * to + 0x80 + aid })),
    },
  ]
  const hub = new Machine(join(DIR, 'hub'), 'serve', {
    assigned_id: 1,
    gateway: { log, receivers: receivers(1, [11, 12, 13]) },
    RESOURCES: { physical_status },
  })
  /** `uplinks`: the peers it sends to, and `from`: those it receives from */
  const node = (aid: number, uplinks: readonly number[], from: readonly number[] = []): Machine =>
    new Machine(join(DIR, `node${aid}`), 'run', {
      assigned_id: aid,
      device_id: `NODE-${aid}`,
      gateway: {
        log,
        sources: [{ name: 'cpu', type: 'cpu', interval_ms: 250 }],
        // longer than any delay of an answer on a busy machine
        failover: { after_s: 20, back_s: 5 },
        receivers: from.length > 0 ? receivers(2, from) : [],
        uplinks: uplinks.map(to => ({
          name: `to${to}`,
          medium: 'CAN',
          interface: to === 1 ? 'vxcan0' : 'vxcan1',
          peers: [{ tx_id: 0x100 * to + 0x80 + aid, rx_id: 0x100 * to + aid }],
        })),
      },
      RESOURCES: { physical_status },
    })
  const nodes = [node(11, [1]), node(12, [1], [13]), node(13, [1, 2])] as const
  const status = (machine: Machine) => askControl(machine.dataDir, 'status')
  before(async () => {
    // one after the other: this kernel has one processor
    await hub.start(['--web-port', '8001'], 8001)
    for (const [k, machine] of nodes.entries()) await machine.start(['--port', String(8100 + k)])
  })
  after(async () => {
    for (const machine of [...nodes, hub]) await machine.stop('SIGKILL')
  })

  /** Everything a node has logged so far is in the logs of these hubs, once in total. */
  const allThere = async (machine: Machine, at: readonly Machine[], twice = new Set<string>()): Promise<number> => {
    const sent = logged(machine)
    const keys = new Set(sent.map(keyOf))
    const got = await until('the hubs have all', () => {
      const facts = at.flatMap(logged).filter(fact => keys.has(keyOf(fact)))
      return new Set(facts.map(keyOf)).size === keys.size ? facts : null
    })
    const seen = new Set<string>()
    const again = (key: string): boolean => twice.has(key) && (seen.has(key) || !seen.add(key))
    assertSame(
      sent,
      got.filter(fact => !again(keyOf(fact))),
    )
    return got.length
  }

  test('one hub receives from three gateways at the same time and acknowledges all', async () => {
    await until('they have logged enough', () => nodes.every(machine => logged(machine).length > 10))
    const counts = await Promise.all(nodes.map(machine => allThere(machine, [hub])))
    for (const machine of nodes)
      await until('acknowledged', async () => (await status(machine)).uplinks.to1.delivery === 'acked')
    console.log(`# ${counts.join(', ')} facts`)
    const { links } = await status(hub)
    assert.deepEqual([links.bus.state, links.bus.errors], ['up', 0])
    assert.ok(logged(nodes[1]).every(fact => fact.id !== 'NODE-13'))
  })

  test("while its hub is off a gateway's second uplink is active, to another peer", async () => {
    await hub.stop('SIGKILL')
    const from13 = () => logged(nodes[1]).filter(fact => fact.id === 'NODE-13')
    // records that the hub had written when it was killed and had not acknowledged go to the other peer too
    const unacknowledged = new Set(
      logged(hub)
        .filter(fact => fact.id === 'NODE-13')
        .slice(-8)
        .map(keyOf),
    )
    await until('the other peer has packets', () => from13().length > 5)
    const { uplinks, links } = await status(nodes[2])
    assert.equal(uplinks.to2.delivery, 'acked')
    assert.notEqual(links.to1.state, 'up')
    await allThere(nodes[2], [hub, nodes[1]], unacknowledged)
  })
})
