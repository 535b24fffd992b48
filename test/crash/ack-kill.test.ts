// A receiver has what it acknowledged (X29): it is killed the moment an answer arrives, repeatedly, and every packet that
// an answer ever named is in its log.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { UplinkEncoder } from '../../src/pipeline/sender'
import { SequenceCounter } from '../../src/protocol/control'
import { DeliverySender } from '../../src/protocol/delivery'
import { resolve } from '../../src/units/canonical'
import { wireUnits } from '../../src/units/wire'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../lib/gateway'

const units = { ...wireUnits(), resolve }
const T0 = 1_710_000_000_000
const ROUNDS = 6

// killed so often in a row it would keep its links off
process.env.OS_NODE_SAFE_MODE = 'off'

const dir = tempDir()
const server = new Machine(join(dir, 'up'), 'serve', { gateway: { log: { commit_interval_ms: 50 } } })
after(async () => {
  await server.stop('SIGKILL')
  removeDir(dir)
})

test('after a kill right after an answer every packet an answer named is in the log, none twice', async () => {
  const port = await freeUdpPort()
  const web = await freePort()
  const encoder = new UplinkEncoder({ aid: 7, units, acknowledged: true })
  const acked = new Set<number>()
  const seqs = new SequenceCounter()
  let sent = 0
  const fact = (k: number) => ({
    id: 'D',
    state: 'ONLINE',
    tRaw: T0 + k,
    aid: 7,
    sensors: [{ id: 's', status: 'OK', unit: 'K', value: k }],
  })
  for (let round = 0; round < ROUNDS; round++) {
    await server.start(['--host', '127.0.0.1', '--port', String(port), '--web-port', String(web)], web)
    const socket = createSocket('udp4')
    const sender = new DeliverySender<number>({
      maxPacket: 400,
      nextSeq: () => seqs.next(),
      randomEpoch: () => 1000 + round,
      onAcked: k => acked.add(k),
      onResend: k => encoder.encodeFull(fact(k)).bytes,
    })
    encoder.opened(true)
    const before = acked.size
    const pump = (): void => {
      if (sender.mode === 'acked')
        for (let k = 0; k < 5; k++) {
          sent++
          sender.submit(encoder.encode(fact(sent)).bytes, sent)
        }
      for (let frame = sender.poll(Date.now()); frame; frame = sender.poll(Date.now()))
        socket.send(frame.slice(), port, '127.0.0.1')
    }
    const timer = setInterval(pump, 3)
    // later in each round, so that another commit is running at the kill
    socket.on('message', message => sender.onAnswer(message, Date.now()))
    await new Promise<void>((done, fail) => {
      socket.on('message', () => {
        if (acked.size > before + 20 * round) done()
      })
      setTimeout(
        () => fail(new Error(`round ${round}: ${acked.size - before} acknowledged\n${server.output.slice(-2000)}`)),
        120_000,
      ).unref()
    })
    const dead = server.stop('SIGKILL')
    clearInterval(timer)
    await dead
    socket.close()
  }
  const times = await until('the log is read', () => server.logFacts().map(one => one.t_raw - T0))
  assert.ok(acked.size > 20 * ROUNDS, `${acked.size} acknowledged`)
  assert.deepEqual(
    [...acked].filter(k => !times.includes(k)),
    [],
  )
  assert.equal(new Set(times).size, times.length)
})
