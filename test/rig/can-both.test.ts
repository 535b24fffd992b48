// Two gateways that are each other's upstream over one pair of CAN ids: everything one logs arrives at the other,
// acknowledged. The uplink and the receiver of a gateway share the socket of the peer. (A gateway forwards what it receives,
// so facts return and circulate: no user should configure this. Here it is the hardest way to use one pair of ids.)
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { realFiles } from '../../src/lib/files'
import { exportFacts } from '../../src/log'
import { askControl } from '../lib/control'
import { type LoggedFact, Machine, until } from '../lib/gateway'
import { inTheRig, tool } from '../lib/rig'

const logged = (machine: Machine): LoggedFact[] =>
  [...exportFacts(join(machine.dataDir, 'log'), 1, realFiles)] as LoggedFact[]

inTheRig(() => {
  tool('ip', 'link', 'add', 'vxcan0', 'type', 'vxcan', 'peer', 'name', 'vxcan1')
  for (const name of ['vxcan0', 'vxcan1']) tool('ip', 'link', 'set', name, 'up')
  const gateway = (aid: number, other: number, name: string): Machine => {
    const peers = [{ aid: other, tx_id: 0x100 + aid, rx_id: 0x100 + other }]
    const link = { medium: 'CAN', interface: name, peers }
    return new Machine(`/run/both/${aid}`, 'run', {
      assigned_id: aid,
      device_id: `NODE-${aid}`,
      gateway: {
        log: { commit_interval_ms: 200 },
        sources: [{ name: 'cpu', type: 'cpu', interval_ms: 500 }],
        receivers: [{ name: 'in', ...link }],
        uplinks: [{ name: 'out', ...link }],
      },
      RESOURCES: { physical_status: { can: true } },
    })
  }
  const both = [gateway(21, 22, 'vxcan0'), gateway(22, 21, 'vxcan1')] as const
  before(async () => {
    for (const [k, machine] of both.entries()) await machine.start(['--port', String(8100 + k)])
  })
  after(async () => {
    for (const machine of both) await machine.stop('SIGKILL')
  })

  test('everything one gateway logs arrives at the other, acknowledged', async () => {
    const of = (machine: Machine, aid: number) => logged(machine).filter(fact => fact.id === `NODE-${aid}`)
    await until('both have of each other', () => of(both[0], 22).length > 10 && of(both[1], 21).length > 10)
    for (const machine of both) {
      const { uplinks, links } = await askControl(machine.dataDir, 'status')
      assert.equal(uplinks.out.delivery, 'acked')
      assert.deepEqual([links.in.state, links.out.state], ['up', 'up'])
    }
    console.log(`# ${both.map(m => `${of(m, 21).length} + ${of(m, 22).length} of ${logged(m).length}`).join('; ')}`)
  })
})
