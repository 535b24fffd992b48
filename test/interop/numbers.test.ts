// Gateways that begin at the same moment on a channel where everybody hears every answer (a radio, a bus of several): each
// takes the id that was meant for it. The channel is a server that gives its answers to all.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { buildIdAssign, controlSeq } from '../../src/protocol/control'
import { COMMAND } from '../../src/wire/commands'
import { freePort, Machine, removeDir, tempDir, until } from '../lib/gateway'

const dir = tempDir()
const channel = createSocket('udp4')
const machines: Machine[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  channel.close()
  removeDir(dir)
})

test('three new gateways that ask at once do not all take the id of the first that is answered', async () => {
  /** the newest question of each, by its port */
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
      const config = { device_id: `GW${web}`, gateway: { sources: [], uplinks } }
      const machine = new Machine(join(dir, `gw${web}`), 'run', config)
      machines.push(machine)
      return machine.start(['--port', String(web)], web)
    }),
  )
  const idOf = ({ config }: Machine): number => JSON.parse(readFileSync(config, 'utf8')).assigned_id
  await until('each has an id', () => machines.every(machine => idOf(machine) < 200), 120_000)
  assert.notEqual(new Set(machines.map(idOf)).size, 1)
})
