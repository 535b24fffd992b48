// The raw CAN socket against can-utils on virtual buses, in both directions; the full line rate of a bus is received
// without a drop (R16).
// Needs: can
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { afterEach, test } from 'node:test'
import { RECEIVE_BUFFER } from '../../drivers/can/signals/signal-options'
import { AGAIN, NO_BUFFERS, READABLE } from '../../src/native'
import {
  CAN_BATCH,
  CAN_EFF,
  CAN_EFF_MASK,
  CAN_ERR,
  CANFD_BRS,
  CANFD_FDF,
  CanFrames,
  CanRaw,
} from '../../src/native/can'
import { canLink } from '../../src/native/can-link'
import { listening } from '../lib/can'
import { until } from '../lib/gateway'
import { inTheRig, tool } from '../lib/rig'

interface Heard {
  id: number
  data: string
  flags: number
  way: number
  time: number
}

inTheRig(() => {
  const open: { close(): void }[] = []
  const children: ChildProcess[] = []
  afterEach(() => {
    for (const socket of open.splice(0)) socket.close()
    for (const child of children.splice(0)) child.kill()
  })
  const make = (name: string, mtu = 72): void => {
    tool('ip', 'link', 'add', name, 'mtu', String(mtu), 'type', 'vcan')
    tool('ip', 'link', 'set', name, 'up')
  }
  make('vcan0')

  /** A socket that records received frames. */
  const listen = (...args: Parameters<typeof CanRaw.open>): { socket: CanRaw; heard: Heard[] } => {
    const socket = CanRaw.open(...args)
    open.push(socket)
    const frames = new CanFrames()
    const heard: Heard[] = []
    socket.watch(READABLE, () => {
      const got = socket.receive(frames)
      for (let k = 0; k < got; k++)
        heard.push({
          id: frames.id(k),
          data: Buffer.from(frames.data(k)).toString('hex'),
          flags: frames.flags(k),
          way: frames.way(k),
          time: frames.times[k]!,
        })
    })
    return { socket, heard }
  }
  const send = (frame: string): string => tool('cansend', 'vcan0', frame)
  /** candump in the background: its lines so far */
  const dump = async (...args: string[]): Promise<{ lines: string[] }> => {
    const child = await listening(() => spawn('candump', ['-L', ...args]))
    children.push(child)
    let text = ''
    const dumped = { lines: [] as string[] }
    child.stdout.on('data', chunk => {
      text += chunk
      dumped.lines = text.trim().split('\n')
    })
    return dumped
  }

  test('classic and FD frames are received with id, data, flags and their arrival time', async () => {
    const { heard } = listen('vcan0', { fd: true })
    const before = Date.now()
    send('123#DEADBEEF')
    send('1ABCDEF0#0102030405060708')
    send('5A1##1' + '11'.repeat(64))
    send('7FF#R4')
    await until('all are received', () => heard.length === 4)
    assert.deepEqual(
      heard.map(({ time: _, ...frame }) => frame),
      [
        { id: 0x123, data: 'deadbeef', flags: 0, way: 1 },
        { id: 0x1abcdef0 + CAN_EFF, data: '0102030405060708', flags: 0, way: 1 },
        { id: 0x5a1, data: '11'.repeat(64), flags: CANFD_FDF | CANFD_BRS, way: 1 },
        { id: 0x7ff + 0x4000_0000, data: '00000000', flags: 0, way: 1 },
      ],
    )
    for (const { time } of heard) assert.ok(time >= before - 1 && time <= Date.now() + 1, `${time}`)
  })

  test('filters pass the named frames; without FD no FD frame is received', async () => {
    const some = listen('vcan0', {
      filters: [
        { id: 0x200, mask: 0x700 + CAN_EFF },
        { id: 0x18fe0000 + CAN_EFF, mask: 0x1fff0000 + CAN_EFF },
      ],
    })
    const others = listen('vcan0', { fd: true, filters: [{ id: 0x200, mask: 0x700 + CAN_EFF, invert: true }] })
    const none = listen('vcan0', { filters: [] })
    for (const frame of ['123#01', '2AB#02', '2AB##003', '18FE1234#04', '18FF1234#05']) send(frame)
    await until('all are received', () => some.heard.length === 2 && others.heard.length === 3)
    assert.deepEqual(
      some.heard.map(frame => frame.data),
      ['02', '04'],
    )
    assert.deepEqual(
      others.heard.map(frame => frame.data),
      ['01', '04', '05'],
    )
    assert.deepEqual(none.heard, [])
  })

  test('error frames are received by sockets that request them', async () => {
    const { heard } = listen('vcan0', { filters: [], errorMask: CAN_EFF_MASK })
    const busOff = listen('vcan0', { filters: [], errorMask: 0x40 })
    send('20000004#0008000000006080') // controller problem: receiver error passive, counters 96 and 128
    send('20000040#0000000000000000') // bus-off
    await until('both are heard', () => heard.length === 2 && busOff.heard.length === 1)
    assert.deepEqual(
      heard.map(({ id, data }) => [id, data]),
      [
        [CAN_ERR + 0x04, '0008000000006080'],
        [CAN_ERR + 0x40, '0000000000000000'],
      ],
    )
    assert.equal(busOff.heard[0]!.id, CAN_ERR + 0x40)
  })

  test('candump receives what we send: batches of classic and FD frames, in order', async () => {
    const dumped = await dump('vcan0')
    const { socket, heard } = listen('vcan0', { fd: true, own: true })
    const frames = new CanFrames(100)
    for (let k = 0; k < 100; k++) {
      const fd = k % 3 === 0
      frames.set(k, k % 2 ? k : k + CAN_EFF, Buffer.alloc(fd ? 12 : k % 9, k), fd ? CANFD_FDF : 0)
    }
    let sent = 0
    while (sent < 100) {
      const result = socket.send(frames, sent, 100 - sent)
      assert.ok(result > 0 && result <= CAN_BATCH, `${result}`)
      sent += result
    }
    await until('candump has them', () => dumped.lines.length >= 100)
    const want = Array.from({ length: 100 }, (_, k) => {
      const id = k % 2 ? k.toString(16).padStart(3, '0') : k.toString(16).padStart(8, '0')
      const data = k.toString(16).padStart(2, '0')
      return `${id}${k % 3 === 0 ? `##${'0'}${data.repeat(12)}` : `#${data.repeat(k % 9)}`}`.toUpperCase()
    })
    assert.deepEqual(
      dumped.lines.map(line => line.split(' ')[2]!.replace('##4', '##0')),
      want,
    )
    await until('we receive our own packets', () => heard.length === 100)
    assert.ok(heard.every(frame => frame.way === 3))
  })

  test('an interface that is missing, down, or vanishes is reported', async () => {
    assert.throws(() => CanRaw.open('vcan9'), { code: 'NOT_FOUND', message: 'vcan9: CAN socket ENODEV' })
    assert.throws(() => canLink('vcan9'), { code: 'NOT_FOUND' })
    tool('ip', 'link', 'add', 'vcan1', 'type', 'vcan')
    assert.equal(canLink('vcan1').up, false)
    const { socket } = listen('vcan1')
    const frames = new CanFrames(1)
    frames.set(0, 1, Buffer.alloc(1))
    assert.equal(socket.send(frames, 0, 1), -100) // ENETDOWN
    tool('ip', 'link', 'set', 'vcan1', 'up')
    assert.equal(socket.receive(frames), AGAIN)
    const deaf = CanRaw.open('vcan1')
    tool('ip', 'link', 'set', 'vcan1', 'down')
    assert.equal(deaf.receive(frames), -100)
    assert.equal(deaf.receive(frames), AGAIN)
    tool('ip', 'link', 'del', 'vcan1')
    assert.equal(deaf.receive(frames), -19) // ENODEV
    deaf.close()
    deaf.close()
    assert.equal(deaf.receive(frames), -9) // EBADF
  })

  test('the kernel reports the kind of the interface', () => {
    const { index, ...link } = canLink('vcan0')
    assert.ok(index > 0)
    assert.deepEqual(
      { up: link.up, running: link.running, fd: link.fd, kind: link.kind, state: link.state, bitrate: link.bitrate },
      { up: true, running: true, fd: true, kind: 'virtual', state: 'unknown', bitrate: 0 },
    )
    assert.equal(canLink('lo').kind, 'other')
    make('vcan2', 16)
    assert.equal(canLink('vcan2').fd, false)
  })

  test('a full queue is reported, and frames dropped for lack of room are counted', async () => {
    const socket = CanRaw.open('vcan0', { receiveBuffer: 4096 })
    open.push(socket)
    const sender = CanRaw.open('vcan0')
    open.push(sender)
    const frames = new CanFrames()
    for (let k = 0; k < CAN_BATCH; k++) frames.set(k, k, Buffer.alloc(8))
    for (let n = 0; n < 4; n++) assert.equal(sender.send(frames, 0, CAN_BATCH), CAN_BATCH)
    let got = 0
    for (;;) {
      const result = socket.receive(frames)
      if (result < 0) break
      got += result
    }
    assert.ok(socket.dropped > 0)
    assert.equal(got + socket.dropped, 256)
    // 100 frames/s through a queue of a few: the others are refused immediately
    tool('tc', 'qdisc', 'add', 'dev', 'vcan0', 'root', 'tbf', 'rate', '12800', 'burst', '160', 'limit', '320')
    let result = 0
    for (let n = 0; n < 10 && result >= 0; n++) result = sender.send(frames, 0, CAN_BATCH)
    assert.equal(result, NO_BUFFERS)
    tool('tc', 'qdisc', 'del', 'dev', 'vcan0', 'root')
  })

  // 1 Mbit/s of classic frames with 11-bit ids and 8 bytes: 111 bits and at least 3 between them, no stuff bits: 8770/s.
  // The sender gets the received count, and waits when that is a second behind: then this process had no processor time for
  // so long, which is the machine's fault and not ours.
  test('the line rate of classic CAN is received for ten seconds without a drop', async t => {
    const [rate, seconds] = [8770, 10]
    // the buffer that a source requests: a second of such a bus
    const socket = CanRaw.open('vcan0', { receiveBuffer: RECEIVE_BUFFER })
    open.push(socket)
    const frames = new CanFrames()
    let got = 0
    let wrong = 0
    const words = [process.env.OS_NODE_TEST_ROOT!, 'vcan0', `${rate}`, `${seconds}`]
    const sender = spawn(process.execPath, ['-e', SENDER, ...words])
    children.push(sender)
    sender.stdin.on('error', () => undefined) // it has sent all, and listens no more
    // when each second's worth of frames was received
    const marks: number[] = []
    socket.watch(READABLE, () => {
      const count = socket.receive(frames)
      if (count <= 0) return
      for (let k = 0; k < count; k++) if (frames.data(k)[0] !== ((got + k) & 255)) wrong++
      if (marks.length === 0) marks.push(performance.now())
      if (got >> 9 !== (got + count) >> 9) sender.stdin.write(`${got + count}\n`)
      got += count
      if (got >= marks.length * rate) marks.push(performance.now())
    })
    const said = await new Promise<string>(resolve => {
      let text = ''
      sender.stdout.on('data', chunk => {
        text += chunk
      })
      sender.on('close', () => resolve(text))
    })
    const { sent, ms, waits } = JSON.parse(said)
    await until('all are present', () => got + socket.dropped >= sent)
    const each = marks.slice(1).map((at, k) => at - marks[k]!)
    t.diagnostic(`${sent} frames in ${ms} ms, ${waits} waits; ms for each second: ${each.map(Math.round).join(' ')}`)
    assert.deepEqual([got, wrong, socket.dropped], [rate * seconds, 0, 0])
    assert.equal(each.length, seconds)
    assert.ok(Math.min(...each) < 1100, 'the quickest second is as quick as the bus')
  })
})

/** Sends numbered frames at an even rate, never a second ahead: a separate program, so that the receiver has its own process. */
const SENDER = `
const [root, name, rate, seconds] = process.argv.slice(1)
const module_ = { exports: {} }
process.dlopen(module_, root + '/dist/native/linux-' + process.arch + '/os_node.node')
const can = module_.exports
const socket = can.openCanRaw(name, 0, 0, 0, new Uint32Array(0))
const slots = new Uint8Array(64 * 72)
const words = new Uint32Array(slots.buffer)
for (let k = 0; k < 64; k++) { words[k * 18] = 0x100; slots[k * 72 + 4] = 8 }
let received = 0
process.stdin.on('data', text => { received = Number(String(text).trim().split('\\n').pop()) })
const began = performance.now()
let sent = 0
let waits = 0
const turn = () => {
  let due = Math.min(rate * seconds, Math.floor((performance.now() - began) / 1000 * rate))
  if (due > received + 0.8 * rate) {
    due = Math.floor(received + 0.8 * rate)
    waits++
  }
  while (sent < due) {
    const count = Math.min(64, due - sent)
    for (let k = 0; k < count; k++) slots[k * 72 + 8] = sent + k
    const went = can.sendCan(socket, slots, 0, count)
    if (went < 0) throw new Error('sendCan ' + went)
    sent += went
  }
  if (sent < rate * seconds) setTimeout(turn, 1)
  else {
    console.log(JSON.stringify({ sent, waits, ms: Math.round(performance.now() - began) }))
    process.stdin.destroy()
  }
}
turn()
`
