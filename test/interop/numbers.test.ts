// Gateways that start at the same moment on a channel where all receive every answer (a radio, a bus of several): each uses the id
// that was meant for it. The channel is a server that sends its answers to all. The same gateways, idle and with 40 readings a
// second, show how often their threads wake.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { buildIdAssign, controlSeq } from '../../src/protocol/control'
import { COMMAND } from '../../src/wire/commands'
import { freePort, Machine, removeDir, tempDir, until } from '../lib/gateway'

const dir = tempDir()
const channel = createSocket('udp4')
/** polls that were answered */
let polls = 0
/** a Modbus TCP unit whose registers change with every poll */
const unit = createServer(socket => {
  socket.on('error', () => undefined)
  socket.on('data', question => {
    const registers = question.readUInt16BE(10)
    const answer = Buffer.alloc(9 + 2 * registers, ++polls)
    question.copy(answer, 0, 0, 8)
    answer.writeUInt16BE(3 + 2 * registers, 4)
    answer[8] = 2 * registers
    socket.write(answer)
  })
})
const machines: Machine[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  channel.close()
  unit.close()
  removeDir(dir)
})

test('three new gateways that request ids at the same time do not all take the first answer', async () => {
  /** the newest request of each, by its port */
  const asked = new Map<number, number>()
  const tell = (packet: Uint8Array): void => {
    for (const port of asked.keys()) channel.send(packet, port, '127.0.0.1')
  }
  channel.on('message', (packet, { port }) => {
    // a peer without acknowledgements
    if (packet[0] === COMMAND.PING) channel.send(Buffer.of(COMMAND.PONG, packet[1]!, packet[2]!), port, '127.0.0.1')
    if (packet[0] !== COMMAND.ID_REQUEST) return
    asked.set(port, controlSeq(packet))
    if (asked.size < 3) return
    let aid = 100
    for (const seq of asked.values()) tell(buildIdAssign(seq, ++aid))
  })
  await new Promise<void>(resolve => channel.bind(0, '127.0.0.1', resolve))
  const uplinks = [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: channel.address().port }]
  const webs = [await freePort(), await freePort(), await freePort()]
  await Promise.all(
    webs.map(web => {
      const config = { device_id: `GW${web}`, gateway: { time: { hold_unsynced_s: 0 }, sources: [], uplinks } }
      const machine = new Machine(join(dir, `gw${web}`), 'run', config)
      machines.push(machine)
      return machine.start(['--port', String(web)], web)
    }),
  )
  const idOf = ({ config }: Machine): number => JSON.parse(readFileSync(config, 'utf8')).assigned_id
  await until('each has an id', () => machines.every(machine => idOf(machine) < 200), 120_000)
  assert.notEqual(new Set(machines.map(idOf)).size, 1)
})

/** How often the threads of a process have gone to sleep so far. */
function slept({ pid }: Machine): number {
  let sum = 0
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const status = readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8')
    sum += Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)![1])
  }
  return sum
}

test('an idle gateway wakes at most 21 times a second, one with 40 readings a second 55 times', async () => {
  await once(unit.listen(0, '127.0.0.1'), 'listening')
  const { port } = unit.address() as AddressInfo
  const registers = Array.from({ length: 40 }, (_, k) => ({ id: `r${k}`, address: k, unit: 'V' }))
  const source = { name: 'plc', type: 'modbus_tcp', host: '127.0.0.1', port, interval_ms: 1000, registers }
  const busy = machines[0]!
  const set = busy.run('config-set', '--key', 'gateway.sources', '--value', JSON.stringify([source]))
  assert.equal(set.code, 0, set.stderr)
  await until('the start is complete', () => polls >= 8)
  const from = { at: performance.now(), polls, slept: machines.map(slept) }
  await until('ten polls', () => polls >= from.polls + 10)
  const seconds = (performance.now() - from.at) / 1000
  const rates = machines.map((machine, k) => (slept(machine) - from.slept[k]!) / seconds)
  const { backlog } = busy.json('status').uplinks.up
  assert.ok(backlog < 5, `the readings go upstream: ${backlog} are kept`)
  for (const [k, rate] of rates.entries())
    assert.ok(rate > 0 && rate <= (k === 0 ? 55 : 21), `${k}: ${rate} wake-ups a second`)
})
