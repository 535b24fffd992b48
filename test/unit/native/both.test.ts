// The whole program with the addon and without: it starts, receives, keeps and answers alike.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { UplinkEncoder, ucumUnits } from '../../../src/index'
import { systemClock } from '../../../src/lib/clock'
import { silentLogger } from '../../../src/lib/logger'
import { createUdp } from '../../../src/media/udp'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../../lib/gateway'

for (const without of ['', '1'])
  test(`a gateway receives, logs and answers ${without ? 'without' : 'with'} the addon`, async t => {
    const before = process.env.OS_NODE_NO_ADDON
    process.env.OS_NODE_NO_ADDON = without
    const dir = tempDir()
    const machine = new Machine(join(dir, 'up'), 'serve', { web_user: { auth_enabled: false } })
    t.after(async () => {
      if (before === undefined) delete process.env.OS_NODE_NO_ADDON
      else process.env.OS_NODE_NO_ADDON = before
      await machine.stop('SIGKILL')
      removeDir(dir)
    })
    const [port, web] = [await freeUdpPort(), await freePort()]
    await machine.start(['--host', '127.0.0.1', '--port', String(port), '--web-port', String(web)], web)
    const node = createUdp('node', { host: '127.0.0.1', port }, { clock: systemClock, logger: silentLogger })
    t.after(() => node.close())
    await node.open({ lost: () => undefined, degraded: () => undefined })
    let answers = 0
    node.onPacket(() => answers++)
    const uplink = new UplinkEncoder({ aid: 7, units: ucumUnits })
    for (let k = 0; k < 20; k++) {
      const sensors = [{ id: 't', status: 'OK', unit: 'K', value: 300 + k }]
      const fact = { id: 'n', state: 'ONLINE', tRaw: 1_710_000_000_000 + k, aid: 7, sensors }
      assert.equal(await node.send(uplink.encode(fact).bytes), true)
    }
    await until('all are kept and answered', () => machine.json('status').received.facts === 20 && answers > 0)
    assert.equal(machine.json('status').links.udp.rx, 20)
    await machine.stop()
    assert.equal(machine.logFacts().length, 20)
  })
