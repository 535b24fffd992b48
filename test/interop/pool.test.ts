// A gateway assigns ids to its own nodes while its upstream is away, from a pool that the upstream gave it before: over
// UDP, with real processes, one of them killed.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { buildIdRequest, parseIdAssign, parseNackReason } from '../../src/protocol/control'
import { COMMAND } from '../../src/wire/commands'
import { answerOf } from '../lib/ask'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../lib/gateway'

const dir = tempDir()
const machines: Machine[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  removeDir(dir)
})

/** Requests an id as a node does; the id, or the reason of the refusal. */
function ask(port: number, device_id: string): Promise<number | string> {
  const socket = createSocket('udp4')
  const send = (): void => socket.send(buildIdRequest(7, { device_id }), port, '127.0.0.1')
  const again = setInterval(send, 500)
  return new Promise<number | string>((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${device_id} gets no answer`)), 90_000)
    socket.on('message', packet => {
      clearTimeout(late)
      if (packet[0] === COMMAND.ID_ASSIGN) resolve(parseIdAssign(packet).assignedId)
      else resolve(parseNackReason(packet))
    })
    send()
  }).finally(() => {
    clearInterval(again)
    socket.close()
  })
}

test('with the upstream away and the gateway killed, new nodes get distinct ids and known ones keep theirs', async () => {
  const packets = await freeUdpPort()
  const nodes = await freeUdpPort()
  const upWeb = await freePort()
  const gwWeb = await freePort()
  const up = new Machine(join(dir, 'up'), 'serve', { device_id: 'UP' })
  const gw = new Machine(join(dir, 'gw'), 'run', {
    device_id: 'GW',
    gateway: {
      sources: [],
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: packets }],
      receivers: [{ name: 'nodes', medium: 'UDP', host: '127.0.0.1', port: nodes }],
    },
    security_settings: { id_pool: { size: 6 } },
  })
  machines.push(up, gw)
  await up.start(['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(upWeb)], upWeb)
  await gw.start(['--port', String(gwWeb)], gwWeb)
  await until('the pool has arrived', async () => (await answerOf(gw, 'status')).ids.released === 6)
  const own = (await answerOf(gw, 'status')).identity.assigned_id as number
  assert.equal((await answerOf(up, 'status')).ids.allocated, 7, 'the gateway and six of its pool')

  await up.stop('SIGKILL')
  const first = await Promise.all(['n1', 'n2', 'n3'].map(name => ask(nodes, name)))
  assert.equal(new Set([...first, own]).size, 4, `${first} and ${own}`)
  for (const id of first) assert.ok(Number(id) > 0 && Number(id) < 4294967295, String(id))

  await gw.stop('SIGKILL')
  await gw.start(['--port', String(gwWeb)], gwWeb)
  assert.deepEqual(await Promise.all(['n1', 'n2', 'n3'].map(name => ask(nodes, name))), first)
  const later = await Promise.all(['n4', 'n5', 'n6'].map(name => ask(nodes, name)))
  assert.equal(new Set([...first, ...later, own]).size, 7, `${later} after ${first}`)
  assert.equal(await ask(nodes, 'n7'), 'ID_POOL_EXHAUSTED')

  // a gateway that gets none says so
  const web = await freePort()
  const uplinks = [{ name: 'gw', medium: 'UDP', host: '127.0.0.1', port: nodes }]
  const refused = new Machine(join(dir, 'refused'), 'run', { device_id: 'N8', gateway: { sources: [], uplinks } })
  machines.push(refused)
  await refused.start(['--port', String(web)], web)
  const why = async (): Promise<unknown> => (await answerOf(refused, 'status')).identity.refused
  await until('the refusal is in the status', async () => (await why()) === 'ID_POOL_EXHAUSTED')
  const { checks } = await answerOf(refused, 'doctor')
  assert.match(checks.find(({ name }: { name: string }) => name === 'identity').text, /N8 gets no id.*EXHAUSTED/)
  await refused.stop('SIGKILL')

  await up.start(['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(upWeb)], upWeb)
  await until('the pool is filled again', async () => (await answerOf(gw, 'status')).ids.released === 6)
  const last = await ask(nodes, 'n7')
  assert.ok(![...first, ...later, own].includes(last as number), `${last} again`)
  assert.equal((await answerOf(gw, 'status')).ids.source, 'pool')
  const kept = (await answerOf(up, 'status')).ids
  assert.deepEqual([kept.source, kept.allocated], ['range', 13])
})
