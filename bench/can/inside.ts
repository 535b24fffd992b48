// Runs inside the rig, see ../can.mjs. Receiving: the frames are in the kernel's buffer when the clock starts, so that the sender
// takes no time of it; candump is stopped meanwhile and runs without printing. Sending: without a receiver. The best of some
// rounds.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { canDriver } from '../../drivers/can'
import { systemClock } from '../../src/lib/clock'
import { silentLogger } from '../../src/lib/logger'
import { READABLE } from '../../src/native'
import { CAN_BATCH, CanFrames, CanRaw } from '../../src/native/can'

const FRAMES = 20_000
const BUFFER = 128 * 1024 * 1024
const ROUNDS = 3
const NAME = 'vcan0'

const perSecond = (count: number, since: number): number => Math.round((count / (performance.now() - since)) * 1000)
const best = async (run: () => number | Promise<number>): Promise<number> => {
  let most = 0
  for (let k = 0; k < ROUNDS; k++) most = Math.max(most, await run())
  return most
}

const frames = new CanFrames()
for (let k = 0; k < CAN_BATCH; k++) frames.set(k, 0x123, Buffer.from('1122334455667788', 'hex'))

function sendAll(socket: CanRaw): void {
  for (let left = FRAMES; left > 0; ) {
    const went = socket.send(frames, 0, Math.min(left, CAN_BATCH))
    if (went < 0) throw new Error(`send ${went}`)
    left -= went
  }
}

const received = async (sender: CanRaw): Promise<number> => {
  const socket = CanRaw.open(NAME, { receiveBuffer: BUFFER })
  sendAll(sender)
  const inbox = new CanFrames()
  let got = 0
  let sum = 0
  const since = performance.now()
  await new Promise<void>(resolve => {
    socket.watch(READABLE, () => {
      const count = socket.receive(inbox)
      for (let k = 0; k < count; k++) sum += inbox.id(k) + inbox.data(k)[7]!
      got += Math.max(0, count)
      if (got >= FRAMES) resolve()
    })
  })
  const rate = perSecond(FRAMES, since)
  const { dropped } = socket
  socket.close()
  if (dropped > 0 || sum !== FRAMES * (0x123 + 0x88)) throw new Error(`${dropped} dropped, sum ${sum}`)
  return rate
}

const candump = async (sender: CanRaw): Promise<number> => {
  const child = spawn('candump', ['-s', '2', '-n', String(FRAMES), '-r', String(BUFFER), NAME], { stdio: 'ignore' })
  await once(child, 'spawn')
  // it is ready when it waits: a stopped one has its socket
  while (!/^State:\s+S/m.test(readFileSync(`/proc/${child.pid}/status`, 'latin1')))
    await new Promise(resolve => setTimeout(resolve, 10))
  await new Promise(resolve => setTimeout(resolve, 200))
  child.kill('SIGSTOP')
  sendAll(sender)
  const ended = once(child, 'exit')
  const since = performance.now()
  child.kill('SIGCONT')
  await ended
  return perSecond(FRAMES, since)
}

const cangen = (): number => {
  const since = performance.now()
  const ran = spawnSync('cangen', [
    NAME,
    '-g',
    '0',
    '-n',
    String(FRAMES),
    '-I',
    '123',
    '-L',
    '8',
    '-D',
    '1122334455667788',
  ])
  if (ran.status !== 0) throw new Error(`cangen: ${ran.stderr}`)
  return perSecond(FRAMES, since)
}

const framesSent = (): number => Number(readFileSync(`/sys/class/net/${NAME}/statistics/tx_packets`, 'latin1'))

/** So many nodes send to one listening medium, each with its own pair of ids: ISO-TP carries one packet of a pair at a time. */
async function medium(nodes: number): Promise<{ packets: number; frames: number }> {
  const context = { clock: systemClock, logger: silentLogger }
  const events = { lost: (why: string) => console.error(why), degraded: () => undefined }
  const ids = Array.from({ length: nodes }, (_, k) => ({ tx_id: 2 * k + 1, rx_id: 2 * k + 2 }))
  const senders = ids.map((peer, k) => canDriver.create(`near${k}`, { interface: NAME, peers: [peer] }, context))
  const peers = ids.map(({ tx_id, rx_id }) => ({ tx_id: rx_id, rx_id: tx_id }))
  const far = canDriver.create('far', { interface: NAME, mode: 'listen', peers }, context)
  let got = 0
  far.onPacket(() => {
    got++
  })
  for (const each of [...senders, far]) await each.open(events)
  const count = 1000
  const framesBefore = framesSent()
  const packet = Buffer.alloc(100, 7)
  const since = performance.now()
  const taken = await Promise.all(Array.from({ length: count }, (_, k) => senders[k % nodes]!.send(packet)))
  const packets = perSecond(count, since)
  if (!taken.every(Boolean) || got !== count) throw new Error(`${got} of ${count} packets arrived`)
  for (const each of [...senders, far]) await each.close()
  // as the interface counts them: first frames, consecutive frames, and the answers of the peer
  return { packets, frames: Math.round(((framesSent() - framesBefore) / count) * packets) }
}

async function main(): Promise<void> {
  execFileSync('ip', ['link', 'add', NAME, 'type', 'vcan'])
  execFileSync('ip', ['link', 'set', NAME, 'up'])
  const sender = CanRaw.open(NAME, { filters: [] })
  const result = {
    received: await best(() => received(sender)),
    candump: await best(() => candump(sender)),
    sent: await best(() => {
      const since = performance.now()
      sendAll(sender)
      return perSecond(FRAMES, since)
    }),
    cangen: await best(cangen),
    one: await medium(1),
    four: await medium(4),
  }
  console.log(JSON.stringify(result))
  process.exit(0)
}
void main()
