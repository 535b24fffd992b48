// UDP over IPv4 over SLIP against other implementations: the kernel's own SLIP line discipline, and a real lwIP stack
// (Debian's liblwip), which is also reached by a tap interface.
// Needs: socat lwip ldattach pkill
import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createSocket, type Socket } from 'node:dgram'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { askControl } from '../lib/control'
import { keyOf, type LoggedFact, Machine, root, sensorsOf, until } from '../lib/gateway'
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
    /** A gateway that receives from the board and sends to it, both over the line at /run/a or what `link` specifies. */
    const gatewayTo = (medium: string, link: Record<string, unknown>, uplink: Record<string, unknown>) => ({
      gateway: {
        sources: [{ name: 'cpu', type: 'cpu', interval_ms: 100 }],
        receivers: [{ name: 'board', medium, address: OURS, port: PORT, ...link }],
        uplinks: [{ name: 'to-board', medium, address: OURS, host: THEIRS, ...link, ...uplink }],
        log: { commit_interval_ms: 100 },
        // no peer here answers the time
        time: { hold_unsynced_s: 0 },
      },
      assigned_id: 9,
    })
    // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the status holds
    const status = (of: Machine): Promise<any> => askControl(of.dataDir, 'status')
    /** A process in the rig takes seconds to start, so the log is read once, at the end. */
    const heard = (of: Machine, count: number) => async () => (await status(of)).received.facts >= count
    after(async () => {
      for (const made of machines) await made.stop('SIGKILL')
      await unplug()
    })

    test('with the kernel at the other end SLIP works', async t => {
      await plug()
      tool('ldattach', '-8', '-n', '-1', 'SLIP', '/run/b')
      await until('the interface', () => existsSync('/sys/class/net/sl0'))
      tool('ip', 'addr', 'add', THEIRS, 'peer', OURS, 'dev', 'sl0')
      tool('ip', 'link', 'set', 'sl0', 'up', 'mtu', '296')
      const far = machine('FAR', 'serve', {
        gateway: { receivers: [{ name: 'far', medium: 'UDP', port: 9001 }], log: { commit_interval_ms: 100 } },
      })
      const gateway = machine('GATEWAY', 'run', gatewayTo('UIP', { device: '/run/a' }, { port: 9001 }))
      await Promise.all([far.start(['--port', '8102']), gateway.start(['--port', '8103'])])
      await until('the link', async () => (await status(gateway)).links.board.state === 'up')
      const socket: Socket = createSocket('udp4')
      const answers: string[] = []
      socket.on('message', message => answers.push(hex(message)))
      await new Promise<void>(resolve => socket.bind(0, THEIRS, resolve))
      const send = (bytes: Uint8Array): void => socket.send(bytes, PORT, OURS)

      await t.test('a packet of C firmware is accepted, PING and ICMP ping are answered', async () => {
        send(firmware(77, 1013.25))
        send(Uint8Array.of(0x09, 0x12, 0x34))
        await until('the fact', heard(gateway, 1))
        await until('the PONG', () => answers.some(answer => answer.startsWith('0a1234')))
        tool('busybox', 'ping', '-c', '2', '-W', '5', OURS)
      })

      await t.test('fragments are dropped and counted, later packets are accepted', async () => {
        send(new Uint8Array(600))
        send(firmware(77, 1014))
        await until('the fact', heard(gateway, 2))
        const { links } = await status(gateway)
        assert.ok(links.board.detail.fragments >= 2, JSON.stringify(links.board))
      })

      await t.test('its own readings are acknowledged, and all have arrived in the end, once', async () => {
        const told = async () => {
          const all = await status(gateway)
          return all.forwarding.cursor > 20 && all.uplinks
        }
        assert.match(JSON.stringify(await until('acknowledged facts', told)), /"delivery":"acked"/)
        const { cursor } = (await status(gateway)).forwarding
        await gateway.stop()
        const sent = gateway.logFacts()
        // a stop gives the remaining records a few seconds, which may be too few here; they would be sent at the next
        // start
        const acked = sent.filter(fact => (fact.seq as number) <= cursor)
        await until('the last ones', heard(far, acked.length))
        await far.stop()
        const missing = sent.map(keyOf)
        for (const key of far.logKeys()) {
          const at = missing.indexOf(key)
          assert.ok(at >= 0, `${key} was never sent, or is there once more`)
          missing.splice(at, 1)
        }
        assert.deepEqual(
          acked.map(keyOf).filter(key => missing.includes(key)),
          [],
        )
        for (const value of [1013.25, 1014]) assert.ok(values(sent).includes(value), `${value} is in the log`)
        t.diagnostic(`${sent.length} facts over 115200 baud that a pty does not keep to`)
      })

      await t.test('dispatch sends over it', async () => {
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
        listener.close()
      })
      socket.close()
      spawnSync('pkill', ['ldattach'])
      await unplug()
    })

    /** A board with lwIP; `lines` is its output. */
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
      const gateway = machine(
        `${medium}-${where[0]}`,
        'run',
        gatewayTo(medium, link, { port: PORT, delivery: 'best_effort' }),
      )
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
      await until('the fact of the board', heard(gateway, 1))
      await until('the PONG at the board', () => lines.some(line => line.startsWith('< 0a0007')))
      await gateway.stop()
      const iwip = { ...link, address: OURS, host: THEIRS, port: PORT }
      const sender = machine(`SENDER-${where[0]}`, 'run', {
        assigned_id: 5,
        RESOURCES: { ...flags, transport_config: { iwip } },
      })
      const sent = sender.json(
        'transmit',
        '--medium',
        medium,
        '--sensor-id',
        'TEMP',
        '--value',
        '21.5',
        '--unit',
        'Cel',
      )
      assert.equal(sent.sent, true, JSON.stringify(sent))
      await until('what was dispatched is at the board', () => frames().some(packet => peerOpen(packet).aid === 5))
      child.kill()
      assert.ok(values(gateway.logFacts()).includes(1000.5))
    }

    test('with lwIP at the other end of the line SLIP works', async () => {
      await plug()
      await exchange('8104', ['slip', '/run/b'], { device: '/run/a', mtu: 296 })
      await unplug()
    })

    test('with lwIP on the network of this machine IWIP works', async () => {
      tool('ip', 'tuntap', 'add', 'dev', 'tap0', 'mode', 'tap')
      tool('ip', 'addr', 'add', `${OURS}/24`, 'dev', 'tap0')
      tool('ip', 'link', 'set', 'tap0', 'up')
      await exchange('8105', ['tap', 'tap0'], {})
    })
  },
  { memory: 1024 },
)
