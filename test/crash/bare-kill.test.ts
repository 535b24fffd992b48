// X33, R32: an original client of the reference sends three FULLs and then DIFFs forever, over UDP, whatever answers it gets. Its
// receiver is killed twice; after that each DIFF gives the values it carries. Inside the delivery exchange nothing is acknowledged
// before a FULL.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { after, test } from 'node:test'
import { addToFrame, buildAnswer, finishFrame, startFrame } from '../../src/protocol/delivery/frame'
import { COMMAND } from '../../src/wire/commands'
import { ByteWriter } from '../../src/wire/cursor'
import { askControl } from '../lib/control'
import { freePort, freeUdpPort, Machine, removeDir, sensorsOf, tempDir, until } from '../lib/gateway'
import { peerFrame } from '../lib/peer'

process.env.OS_NODE_SAFE_MODE = 'off'
const AID = 301
const T0 = 1_710_000_000_000
const dir = tempDir()
const server = new Machine(dir, 'serve', { device_id: 'SERVER' })
const socket = createSocket('udp4')
after(async () => {
  socket.close()
  await server.stop('SIGKILL')
  removeDir(dir)
})

test('a sender that never sends FULL again is decoded through kill -9 of its receiver', async () => {
  const web = await freePort()
  const port = await freeUdpPort()
  const args = ['--host', '127.0.0.1', '--port', String(port), '--web-port', String(web)]
  const nacks: string[] = []
  const answers: string[] = []
  socket.on('message', packet => {
    if (packet[0] === COMMAND.HANDSHAKE_NACK) nacks.push(packet.toString('utf8', 3))
    else if (packet[0] === COMMAND.HANDSHAKE_ACK) answers.push(packet.toString('hex'))
  })
  const send = (packet: Uint8Array): void => socket.send(packet, port, '127.0.0.1')
  let k = 0
  const full = (): Buffer => {
    const ts = T0 + 1000 * ++k
    const token = Buffer.from(ts.toString(16).padStart(12, '0'), 'hex').toString('base64url')
    return peerFrame(0x3f, [AID], 1, ts, `${AID};HUB.1.${token}|T1>K.A01:2Bi|P1>K.9:${k}|`)
  }
  const diff = (value: string): Buffer =>
    peerFrame(0xaa, [AID], 1, T0 + 1000 * ++k, Buffer.concat([Buffer.of(2, value.length), Buffer.from(value)]))
  const received = async (): Promise<Record<string, number>> => (await askControl(server.dataDir, 'status')).received
  const taken = (facts: number): Promise<unknown> =>
    until(`${facts} facts`, async () => (await received()).facts! >= facts && true)

  await server.start(args, web)
  for (let n = 0; n < 3; n++) send(full())
  send(diff('3'))
  await taken(4)
  await until('they are on flash', async () => (await askControl(server.dataDir, 'status')).log.pending !== 1 && true)
  for (const round of [1, 2]) {
    await until('a commit', async () => (await askControl(server.dataDir, 'status')).log.pending === 0)
    await server.stop('SIGKILL')
    await server.start(args, web)
    for (let n = 0; n < 10; n++) send(diff('abcdefghij'[n]!))
    await taken(10)
    send(peerFrame(0x7f, [AID], 1, T0 + 1000 * ++k, ''))
    await until('the HEART is refused', async () => (await received()).refused === 1)
    const { facts, template_rebuilt } = await received()
    assert.deepEqual({ facts, template_rebuilt }, { facts: 10, template_rebuilt: 10 }, `round ${round}`)
  }
  assert.ok(nacks.length >= 22 && nacks.every(text => text.startsWith(`NEED_FULL;${AID};1;`)), nacks[0])

  const writer = new ByteWriter(new Uint8Array(100))
  startFrame(writer, 7, 1, 1)
  addToFrame(writer, diff('z'))
  const before = nacks.length
  send(finishFrame(writer, 1).slice())
  await until('a FULL is requested', () => nacks.length > before)
  assert.deepEqual(
    answers.filter(answer => answer !== Buffer.from(buildAnswer(7, 0, 0)).toString('hex')),
    [],
    'nothing is acknowledged',
  )
  send(full())
  send(diff('5'))
  await taken(12)
  await server.stop('SIGTERM')
  const logged = server.logFacts().filter(fact => fact.id === 'HUB')
  const ids = logged.map(fact =>
    sensorsOf(fact)
      .map(sensor => sensor.id)
      .join(),
  )
  assert.deepEqual(ids, [...Array(4).fill('T1,P1'), ...Array(20).fill('T1'), 'T1,P1', 'T1,P1'])
  for (const fact of logged.slice(4, 24)) {
    const [{ unit, status, value }] = sensorsOf(fact) as [ReturnType<typeof sensorsOf>[0]]
    assert.deepEqual([unit, status], ['K', 'OK'])
    assert.ok(value! > 273.15 && value! < 273.16, `${value}`)
  }
})
