// UDP over IPv4 over SLIP against others who speak it: the kernel's own SLIP line discipline, and a real lwIP stack (Debian's
// liblwip), which is reached by a tap interface too.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createSocket, type Socket } from 'node:dgram'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { askControl } from '../lib/control'
import { type LoggedFact, Machine, root, sensorsOf, until } from '../lib/gateway'
import { peerFrame, peerOpen, peerText } from '../lib/peer'
import { inTheRig, tool } from '../lib/rig'

const OURS = '10.0.0.1'
const THEIRS = '10.0.0.2'
const PORT = 8080
const SECONDS = 1_710_001_234
const flags = { transport_status: { udp: true, uip: true, iwip: true } }
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

/** As C firmware sends one sensor: value × 10 000, no time in the text, the frame's time in seconds. */
const firmware = (aid: number, value: number): Buffer =>
  peerFrame(0x3f, [aid], 1, SECONDS, `TEMP|Pa|${peerText(BigInt(value * 10_000))}`)

const values = (facts: LoggedFact[], id = 'TEMP'): (number | null)[] =>
  facts.flatMap(sensorsOf).flatMap(sensor => (sensor.id === id ? [sensor.value] : []))

inTheRig(
  () => {
    let cable: ChildProcess | undefined
    /** A serial cable between /run/a, ours, and /run/b. */
    const plug = async (): Promise<void> => {
      cable = spawn('socat', ['pty,raw,echo=0,link=/run/a', 'pty,raw,echo=0,link=/run/b'], { stdio: 'inherit' })
      await until('the cable', () => existsSync('/run/a') && existsSync('/run/b'))
    }
    const unplug = async (): Promise<void> => {
      const was = cable
      cable = undefined
      if (!was) return
      const gone = new Promise(resolve => was.once('exit', resolve))
      was.kill()
      await gone
    }
    const machines: Machine[] = []
    const machine = (name: string, verb: 'run' | 'serve', config: Record<string, unknown>): Machine => {
      const made = new Machine(join('/run/slip', name), verb, { device_id: name, RESOURCES: flags, ...config })
      machines.push(made)
      return made
    }
    const receiver = (medium: string, more: Record<string, unknown> = {}) => ({
      gateway: {
        receivers: [{ name: 'board', medium, device: '/run/a', address: OURS, port: PORT, ...more }],
        log: { commit_interval_ms: 100 },
      },
    })
    const uplink = (medium: string, more: Record<string, unknown> = {}) => ({
      gateway: {
        sources: [{ name: 'cpu', type: 'cpu', interval_ms: 200 }],
        uplinks: [{ name: 'board', medium, device: '/run/a', address: OURS, host: THEIRS, port: 9001, ...more }],
        log: { commit_interval_ms: 100 },
      },
    })
    after(async () => {
      for (const made of machines) await made.stop('SIGKILL')
      await unplug()
    })

    test('the kernel at the other end', async t => {
      await plug()
      tool('ldattach', '-8', '-n', '-1', 'SLIP', '/run/b')
      await until('the interface', () => existsSync('/sys/class/net/sl0'))
      tool('ip', 'addr', 'add', THEIRS, 'peer', OURS, 'dev', 'sl0')
      tool('ip', 'link', 'set', 'sl0', 'up', 'mtu', '296')
      const upstream = machine('UPSTREAM', 'serve', receiver('UIP'))
      const socket: Socket = createSocket('udp4')
      const answers: string[] = []
      socket.on('message', message => answers.push(hex(message)))
      await new Promise<void>(resolve => socket.bind(0, THEIRS, resolve))
      const send = (bytes: Uint8Array): void => socket.send(bytes, PORT, OURS)

      await t.test('a packet of C firmware is logged, a PING is answered, a ping too', async () => {
        await upstream.start(['--web-port', '8001', '--port', '8101'], 8001)
        await until('the link', async () => (await askControl(upstream.dataDir, 'status')).links.board.state === 'up')
        send(firmware(77, 1013.25))
        send(Uint8Array.of(0x09, 0x12, 0x34))
        await until('the fact', () => values(upstream.logFacts()).includes(1013.25))
        await until('the PONG', () => answers.some(answer => answer.startsWith('0a1234')))
        tool('busybox', 'ping', '-c', '2', '-W', '2', OURS)
      })

      await t.test('fragments are dropped and counted, what comes after them is taken', async () => {
        send(new Uint8Array(600))
        send(firmware(77, 1014))
        await until('the fact', () => values(upstream.logFacts()).includes(1014))
        const { links } = await askControl(upstream.dataDir, 'status')
        assert.ok(links.board.detail.fragments >= 2, JSON.stringify(links.board))
      })

      await upstream.stop()

      await t.test('a gateway upstream over it: acknowledged, and every reading once', async () => {
        const far = machine('FAR', 'serve', {
          gateway: { receivers: [{ name: 'far', medium: 'UDP', port: 9001 }], log: { commit_interval_ms: 100 } },
        })
        await far.start(['--web-port', '8002', '--port', '8102'], 8002)
        const gateway = machine('GATEWAY', 'run', uplink('UIP'))
        await gateway.start(['--port', '8103'])
        const forwarding = await until(
          'acknowledged facts',
          async () => {
            const status = await askControl(gateway.dataDir, 'status')
            return status.forwarding.cursor > 20 && status
          },
          40_000,
        )
        assert.match(JSON.stringify(forwarding), /"delivery":"acked"/)
        await gateway.stop()
        const sent = gateway.logKeys()
        const got = far.logFacts().filter(fact => fact.id === 'GATEWAY')
        assert.ok(
          got.length > 10 && got.length >= sent.length - 5,
          `${got.length} of ${sent.length}, ${JSON.stringify(far.logFacts()[0])}`,
        )
        assert.equal(new Set(got.map(fact => fact.t_raw)).size, got.length)
        t.diagnostic(`${got.length} of ${sent.length} facts over 115200 baud that a pty does not keep to`)
        await far.stop()
      })

      await t.test('dispatch sends over it; what does not fit is refused by name', async () => {
        const sender = machine('SENDER', 'run', {
          assigned_id: 5,
          RESOURCES: {
            ...flags,
            transport_config: { uip: { device: '/run/a', address: OURS, host: THEIRS, port: 9009 } },
          },
        })
        const got: Buffer[] = []
        const listener = createSocket('udp4').on('message', message => got.push(message))
        await new Promise<void>(resolve => listener.bind(9009, THEIRS, resolve))
        const sent = sender.json(
          'transmit',
          '--medium',
          'UIP',
          '--sensor-id',
          'TEMP',
          '--value',
          '21.5',
          '--unit',
          'Cel',
        )
        assert.equal(sent.sent, true, JSON.stringify(sent))
        await until('the packet', () => got.length > 0)
        assert.equal(peerOpen(got[0]!).aid, 5)
        const wide = sender.run(
          'transmit',
          '--medium',
          'UIP',
          '--sensor-id',
          'X'.repeat(280),
          '--value',
          '1',
          '--unit',
          'Cel',
        )
        assert.match(wide.stderr + wide.stdout, /PACKET_TOO_LARGE/)
        listener.close()
      })
      socket.close()
      spawnSync('pkill', ['ldattach'])
      await unplug()
    })

    /** A board with lwIP; `lines` are what it says. */
    const board = async (...where: string[]): Promise<{ child: ChildProcess; lines: string[] }> => {
      const program = '/run/lwip-peer'
      const source = join(root, 'test/rig/lwip/peer.c')
      if (!existsSync(program)) tool('gcc', '-O1', '-I/usr/include/lwip', '-o', program, source, '-llwip', '-lpthread')
      const child = spawn(program, [...where, THEIRS, OURS], { stdio: ['pipe', 'pipe', 'inherit'] })
      const lines: string[] = []
      let rest = ''
      child.stdout!.on('data', chunk => {
        const parts = `${rest}${chunk}`.split('\n')
        rest = parts.pop()!
        lines.push(...parts)
      })
      await until('lwIP runs', () => lines.includes('ready'))
      return { child, lines }
    }
    const exchange = async (port: string, where: string[], link: Record<string, unknown>): Promise<void> => {
      const medium = 'IWIP'
      const { child, lines } = await board(...where)
      const gateway = machine(`${medium}-${where[0]}`, 'run', {
        gateway: {
          sources: [{ name: 'cpu', type: 'cpu', interval_ms: 200 }],
          receivers: [{ name: 'board', medium, address: OURS, port: PORT, ...link }],
          uplinks: [
            { name: 'to-board', medium, address: OURS, host: THEIRS, port: PORT, delivery: 'best_effort', ...link },
          ],
          log: { commit_interval_ms: 100 },
          // nobody here tells the time
          time: { hold_unsynced_s: 0 },
        },
        assigned_id: 9,
      })
      await gateway.start(['--port', port])
      const say = (bytes: Uint8Array): void => void child.stdin!.write(`${hex(bytes)}\n`)
      // not its requests for the time
      const frames = (): Buffer[] =>
        lines.filter(line => /^(3f|aa|7f)/.test(line)).map(line => Buffer.from(line, 'hex'))
      await until('packets at the board', () => frames().length >= 5)
      const packets = frames()
      for (const packet of packets) assert.equal(peerOpen(packet).aid, 9)
      say(firmware(78, 1000.5))
      say(Uint8Array.of(0x09, 0x00, 0x07))
      await until('the fact of the board', () => values(gateway.logFacts()).includes(1000.5))
      await until('the PONG at the board', () => lines.some(line => line.startsWith('< 0a0007')))
      await gateway.stop()
      child.kill()
    }

    test('lwIP at the other end of the line', async () => {
      await plug()
      await exchange('8104', ['slip', '/run/b'], { device: '/run/a', mtu: 296 })
      await unplug()
    })

    test('lwIP on the network of this machine', async () => {
      tool('ip', 'tuntap', 'add', 'dev', 'tap0', 'mode', 'tap')
      tool('ip', 'addr', 'add', `${OURS}/24`, 'dev', 'tap0')
      tool('ip', 'link', 'set', 'tap0', 'up')
      await exchange('8105', ['tap', 'tap0'], {})
    })
  },
  { memory: 1024, seconds: 120 },
)
