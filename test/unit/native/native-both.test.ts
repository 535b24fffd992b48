// The complete program with the addon and without: it starts, receives, keeps and answers in the same way.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { UplinkEncoder, ucumUnits } from '../../../src/index'
import { systemClock } from '../../../src/lib/clock'
import { silentLogger } from '../../../src/lib/logger'
import { createUdp } from '../../../src/media/udp'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../../lib/gateway'
import { Ptys } from '../../lib/ptys'

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

test('without the addon only the links that need it are down, and each says why and what to do', async t => {
  const before = process.env.OS_NODE_NO_ADDON
  process.env.OS_NODE_NO_ADDON = '1'
  const dir = tempDir()
  const ptys = new Ptys()
  const [port, other] = [await ptys.port(join(dir, 'uart')), await ptys.port(join(dir, 'rs485'))]
  const machine = new Machine(join(dir, 'gateway'), 'run', {
    assigned_id: 3,
    RESOURCES: { physical_status: { can: true, lora: true, uart: true, rs485: true } },
    gateway: {
      sources: [
        { name: 'cpu', type: 'cpu' },
        { name: 'air', type: 'bme280', bus: '/dev/i2c-1' },
      ],
      receivers: [
        { name: 'bus', medium: 'CAN', interface: 'can0', peers: [{ tx_id: 1, rx_id: 2 }] },
        { name: 'radio', medium: 'LoRa', spi: '/dev/spidev0.0' },
        { name: 'pair', medium: 'RS485', port: other.path },
        { name: 'wire', medium: 'UART', port: port.path },
      ],
      uplinks: [{ name: 'nowhere', medium: 'UDP', host: '127.0.0.1', port: 9 }],
    },
  })
  t.after(async () => {
    if (before === undefined) delete process.env.OS_NODE_NO_ADDON
    else process.env.OS_NODE_NO_ADDON = before
    await machine.stop('SIGKILL')
    ptys.close()
    removeDir(dir)
  })
  await machine.start(['--port', String(await freePort())])
  const names = ['air', 'bus', 'radio', 'pair', 'wire', 'cpu']
  const links = await until('all were tried', () => {
    const all: Record<string, { state: string; reason?: string; hint?: string }> = machine.json('status').links
    return names.every(name => all[name] && all[name].state !== 'opening') ? all : null
  })
  for (const name of ['air', 'bus', 'radio', 'pair', 'wire']) {
    assert.match(`${links[name]!.state}: ${links[name]!.reason}`, /^down: native addon missing/, name)
    assert.match(links[name]!.hint!, /unset OS_NODE_NO_ADDON/, name)
  }
  assert.equal(links.cpu!.state, 'up')
})
