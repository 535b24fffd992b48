// The CAN medium against isotpsend and isotprecv on a virtual bus: packets in both directions, classic and FD, several peers at the same
// time; missing parts are reported; a full queue waits (R16); the state of the bus is shown.
// Needs: can
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, test } from 'node:test'
import { canDriver } from '../../drivers/can'
import type { CanMedium } from '../../drivers/can/medium'
import { systemClock } from '../../src/lib/clock'
import { silentLogger } from '../../src/lib/logger'
import { listening } from '../lib/can'
import { until } from '../lib/gateway'
import { inTheRig, tool } from '../lib/rig'

interface Got {
  packet: Buffer
  address: string
}

/** an opened medium, its received packets and its events */
interface Opened {
  medium: CanMedium
  got: Got[]
  lost: string[]
  degraded: string[]
}

const context = { clock: systemClock, logger: silentLogger }
const make = (options: Record<string, unknown>): CanMedium =>
  canDriver.create('bus', { interface: 'vcan0', ...options }, context) as CanMedium

inTheRig(() => {
  const opened: CanMedium[] = []
  const children: ChildProcess[] = []
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill()
    for (const medium of opened.splice(0)) await medium.close()
  })
  tool('ip', 'link', 'add', 'vcan0', 'mtu', '72', 'type', 'vcan')
  tool('ip', 'link', 'set', 'vcan0', 'up')

  const open = async (options: Record<string, unknown>): Promise<Opened> => {
    const medium = make(options)
    opened.push(medium)
    const result: Opened = { medium, got: [], lost: [], degraded: [] }
    medium.onPacket((packet, { address }) => result.got.push({ packet: Buffer.from(packet), address }))
    await medium.open({ lost: reason => result.lost.push(reason), degraded: reason => result.degraded.push(reason) })
    return result
  }
  /** isotprecv in the background: the packets it received, in hex */
  const receive = async (...args: string[]): Promise<string[]> => {
    const child = await listening(() => spawn('stdbuf', ['-oL', 'isotprecv', '-l', ...args, 'vcan0']))
    children.push(child)
    const packets: string[] = []
    let text = ''
    child.stdout.on('data', chunk => {
      text += chunk
      const lines = text.split('\n')
      text = lines.pop()!
      for (const line of lines) packets.push(line.replaceAll(' ', '').toLowerCase())
    })
    return packets
  }
  const sendBy = (packet: Buffer, ...args: string[]): Promise<unknown> => {
    const child = spawn('isotpsend', [...args, 'vcan0'])
    child.stdin.end(`${packet.toString('hex').replace(/../g, '$& ')}\n`)
    return once(child, 'exit')
  }
  const bytes = (length: number): Buffer => Buffer.from(Array.from({ length }, (_, k) => (k * 7) & 255))
  const two = { tx_id: '0x7E0', rx_id: '0x7E8' }

  for (const [kind, peer, tool_] of [
    ['11-bit ids', two, ['-s', '7E8', '-d', '7E0']],
    ['29-bit ids', { tx_id: '0x18DA10F1', rx_id: '0x18DAF110' }, ['-s', '18DAF110', '-d', '18DA10F1']],
    ['padded frames', { ...two, padding: 0xcc }, ['-s', '7E8', '-d', '7E0', '-p', 'AA:CC']],
    ['blocks and pauses', { ...two, block_size: 4, separation_us: 200 }, ['-s', '7E8', '-d', '7E0']],
    ['FD', { ...two, fd: true }, ['-s', '7E8', '-d', '7E0', '-L', '72:64:1']],
    ['FD of 16 bytes', { ...two, fd: true, frame_bytes: 16, brs: false }, ['-s', '7E8', '-d', '7E0', '-L', '72:16:0']],
  ] as const) {
    test(`packets of every length are sent in both directions: ${kind}`, async () => {
      const { medium, got, lost } = await open({ peers: [peer] })
      const packets = await receive(...tool_.filter(word => !word.includes(':CC') && word !== '-p'))
      const sizes = [1, 7, 8, 61, 62, 63, 300, 4095]
      assert.deepEqual(
        await Promise.all(sizes.map(size => medium.send(bytes(size)))),
        sizes.map(() => true),
      )
      await until('isotprecv has them', () => packets.length === sizes.length)
      assert.deepEqual(
        packets,
        sizes.map(size => bytes(size).toString('hex')),
      )
      for (const child of children.splice(0)) child.kill()

      for (const size of [1, 8, 300]) await sendBy(bytes(size), ...tool_)
      await until('we have them', () => got.length === 3)
      assert.deepEqual(
        got.map(({ packet }) => packet.toString('hex')),
        [1, 8, 300].map(n => bytes(n).toString('hex')),
      )
      assert.equal(got[0]!.address, `vcan0:${peer.rx_id.toLowerCase()}`)
      assert.deepEqual([lost, medium.counters.rx, medium.counters.tx], [[], 3, 8])
    })
  }

  test('many peers at the same time: each is received and answered by its own ids', async () => {
    const peers = Array.from({ length: 8 }, (_, k) => ({ aid: 100 + k, tx_id: 0x600 + k, rx_id: 0x680 + k }))
    const gateway = await open({ mode: 'listen', peers })
    gateway.medium.onPacket((packet, origin) => {
      gateway.got.push({ packet: Buffer.from(packet), address: origin.address })
      void origin.reply(Buffer.concat([Buffer.from('to '), packet]))
    })
    const nodes = await Promise.all(
      peers.map(({ tx_id, rx_id }) => open({ peers: [{ tx_id: rx_id, rx_id: tx_id, fd: false }] })),
    )
    const packet = (k: number, n: number): Buffer => Buffer.concat([Buffer.from([k, n]), bytes(100 + n)])
    const taken = nodes.flatMap(({ medium }, k) => Array.from({ length: 20 }, (_, n) => medium.send(packet(k, n))))
    assert.ok((await Promise.all(taken)).every(Boolean))
    await until('all are answered', () => nodes.every(({ got }) => got.length === 20))
    for (const [k, { got }] of nodes.entries())
      for (const [n, answer] of got.entries())
        assert.deepEqual(answer.packet, Buffer.concat([Buffer.from('to '), packet(k, n)]))
    for (const { packet: heard, address } of gateway.got)
      assert.equal(address, `vcan0:0x${(0x680 + heard[0]!).toString(16)}`)
    assert.equal(await gateway.medium.send(bytes(5)), false) // which destination?
  })

  test('a peer that does not answer: false, degraded until it does; later packets wait their turn', async () => {
    const { medium, degraded } = await open({ peers: [two] })
    assert.deepEqual(await Promise.all([medium.send(bytes(5)), medium.send(bytes(100))]), [true, false])
    assert.deepEqual(degraded, ['the peer at vcan0:0x7e8 does not take packets'])
    assert.equal(medium.counters.detail!.not_taken, 1)
    const packets = await receive('-s', '7E8', '-d', '7E0')
    assert.ok(await medium.send(bytes(100)))
    await until('isotprecv has it', () => packets.length === 2 || packets.length === 1)
    assert.deepEqual(degraded.at(-1), '')
  })

  test('a full queue waits and nothing is lost', async t => {
    const peers = Array.from({ length: 6 }, (_, k) => ({ aid: 1 + k, tx_id: 0x500 + k, rx_id: 0x580 + k }))
    const listener = await open({ mode: 'listen', peers: peers.map(p => ({ ...p, tx_id: p.rx_id, rx_id: p.tx_id })) })
    const nodes = await Promise.all(peers.map(({ aid }) => open({ peers, peer: aid })))
    // 1000 frames/s, in a queue of four
    tool('tc', 'qdisc', 'add', 'dev', 'vcan0', 'root', 'tbf', 'rate', '128kbit', 'burst', '160', 'limit', '64')
    const since = performance.now()
    const sent: Promise<boolean>[] = []
    for (const [k, { medium }] of nodes.entries())
      for (let n = 0; n < 61; n++) sent.push(medium.send(n < 60 ? Buffer.from([k, n, 1, 2, 3]) : bytes(20)))
    assert.ok((await Promise.all(sent)).every(Boolean))
    const ms = performance.now() - since
    tool('tc', 'qdisc', 'del', 'dev', 'vcan0', 'root')
    await until('all are present', () => listener.got.length >= 366)
    const waited = nodes.reduce((sum, { medium }) => sum + medium.counters.detail!.queue_full!, 0)
    t.diagnostic(`${waited} waits in ${ms.toFixed()} ms`)
    assert.ok(waited > 0)
    // the queue is full for half a second at most, the time of 500 frames, and six senders check every 5 ms
    assert.ok(waited < 800, 'it waits, and does not spin')
    const seen = new Set(listener.got.filter(g => g.packet.length === 5).map(g => `${g.packet[0]} ${g.packet[1]}`))
    assert.equal(seen.size, 360)
  })

  test('error frames set the state of the bus: degraded, then recovered', async () => {
    const { degraded, medium } = await open({ peers: [two] })
    const send = (frame: string): string => tool('cansend', 'vcan0', frame)
    send('20000004#0020000000006080')
    await until('passive', () => degraded.length === 1)
    assert.match(degraded[0]!, /^vcan0 is error-passive/)
    send('20000040#0000000000000000')
    await until('off', () => degraded.length === 2)
    assert.match(degraded[1]!, /^vcan0 is bus-off/)
    send('20000100#0000000000000000')
    await until('restarted', () => degraded.length === 3)
    assert.equal(degraded[2], '')
    assert.equal(medium.counters.detail!.error_frames, 3)
  })

  test('missing parts are reported with what to do', async () => {
    const refused = (options: Record<string, unknown>): Promise<void> =>
      make(options).open({ lost: () => undefined, degraded: () => undefined })
    await assert.rejects(refused({ interface: 'can7', peers: [two] }), {
      code: 'LINK_DOWN',
      message: /^there is no interface can7: plug the adapter in, or enable its overlay/,
    })
    tool('ip', 'link', 'add', 'vcan1', 'mtu', '16', 'type', 'vcan')
    await assert.rejects(refused({ interface: 'vcan1', peers: [two] }), {
      code: 'LINK_DOWN',
      message: 'vcan1 is down: systemctl start os-node-can@vcan1, or: ip link set vcan1 up type can bitrate 500000',
    })
    tool('ip', 'link', 'set', 'vcan1', 'up')
    await assert.rejects(refused({ interface: 'vcan1', peers: [{ ...two, fd: true }] }), /vcan1 carries no FD frames/)
    await assert.rejects(refused({ interface: 'lo', peers: [two] }), { code: 'CONFIG_INVALID' })
    await assert.rejects(refused({ peers: [two], max_packet: 9000 }), /more than this kernel's ISO-TP carries \(8300\)/)
  })

  test('above 4095 bytes where both kernels accept it', async () => {
    const a = await open({ peers: [two], max_packet: 8300 })
    const b = await open({ mode: 'listen', peers: [{ tx_id: 0x7e8, rx_id: 0x7e0 }], max_packet: 8300 })
    assert.ok(await a.medium.send(bytes(8300)))
    await until('it is present', () => b.got.length === 1)
    assert.deepEqual(b.got[0]!.packet, bytes(8300))
    assert.equal(await a.medium.send(bytes(8301)), false)
  })

  test('an interface that goes down is reported lost, immediately and once', async () => {
    tool('ip', 'link', 'add', 'vcan2', 'type', 'vcan')
    tool('ip', 'link', 'set', 'vcan2', 'up')
    const { medium, lost } = await open({ interface: 'vcan2', peers: [two] })
    const stuck = medium.send(bytes(100))
    tool('ip', 'link', 'set', 'vcan2', 'down')
    await until('it is lost', () => lost.length > 0)
    assert.match(lost[0]!, /^vcan2 is down: systemctl start os-node-can@vcan2/)
    assert.equal(await stuck, false)
    assert.equal(await medium.send(bytes(1)), false)
  })
})
