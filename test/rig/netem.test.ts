// The simulated weather that other tests rely on is as bad as specified: measured with datagrams over a cable.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createSocket, type Socket } from 'node:dgram'
import { after, test } from 'node:test'
import { sleep, until } from '../lib/gateway'
import { Namespace } from '../lib/netem'
import { inTheRig } from '../lib/rig'

const ECHO = `const s = require('dgram').createSocket('udp4')
s.on('message', (m, from) => s.send(m, from.port, from.address))
s.bind(7, () => console.log('up'))`

inTheRig(() => {
  const other = new Namespace('other')
  const cable = other.cable()
  const echo = spawn(other.prefix[0], [...other.prefix.slice(1), process.execPath, '-e', ECHO])
  const socket: Socket = createSocket('udp4')
  after(() => {
    echo.kill()
    socket.close()
  })
  /** Polls without one more answer before it concludes that none will arrive. */
  const QUIET = 15
  let answers: { n: number; ms: number }[] = []
  const asked: number[] = []
  /** when the last one had been sent */
  let sentAt = 0
  socket.on('message', message => {
    const n = message.readUInt32BE()
    answers.push({ n, ms: performance.now() - asked[n]! })
  })
  /** Sends `count` datagrams of `bytes`, 2 ms apart or all at once, and waits for the answers. */
  const volley = async (count: number, bytes = 64, apart = true): Promise<typeof answers> => {
    answers = []
    for (let n = 0; n < count; n++) {
      const message = Buffer.alloc(bytes)
      message.writeUInt32BE(n)
      asked[n] = performance.now()
      socket.send(message, 7, cable.far, () => {
        sentAt = performance.now()
      })
      if (apart) await sleep(2)
    }
    let [seen, quiet] = [0, 0]
    await until('nothing more is in flight', () => {
      quiet = answers.length === seen ? quiet + 1 : 0
      seen = answers.length
      return quiet > QUIET
    })
    return answers
  }

  test('in fair weather everything returns, in order', async () => {
    await new Promise(resolve => echo.stdout.once('data', resolve))
    const got = await volley(50)
    await until('all are back', () => got.length >= 50)
    assert.deepEqual(
      got.map(one => one.n),
      Array.from({ length: 50 }, (_, n) => n),
    )
  })

  test('loss, delay and reordering work in both directions', async () => {
    cable.weather({ loss: 30, delayMs: 50, jitterMs: 20 })
    const got = await volley(300)
    assert.ok(got.length > 90 && got.length < 205, `${got.length} of 300; 49 % were meant`)
    assert.ok(
      got.every(one => one.ms > 50),
      'no answer in less than the least delay of both directions',
    )
    assert.ok(
      got.some((one, k) => k > 0 && one.n < got[k - 1]!.n),
      'some overtook others',
    )
    const { packets, dropped } = cable.carried('down')
    assert.ok(packets >= 300 && dropped > 50)
  })

  test('duplicates arrive twice', async () => {
    cable.weather({ duplicate: 50 }, 'up')
    cable.weather({}, 'down')
    const got = await volley(100)
    const extra = got.length - new Set(got.map(one => one.n)).size
    assert.ok(extra > 20 && extra < 80, `${extra} of 100`)
  })

  test('a rate-limited cable carries its rate', async () => {
    cable.weather({})
    cable.weather({ rate: 64_000 }, 'down')
    const got = await volley(100, 500, false)
    // packets sent immediately, the queue of half a second and as much again, and those sent meanwhile
    const most = (3000 + 7000 + 8 * (sentAt - asked[0]!)) / 500
    assert.ok(got.length <= most && got.length > 5, `${got.length} of 50 kB at 8 kB/s, ${most} were meant`)
    assert.ok(cable.carried('down').dropped > 0)
  })

  test('silence lets nothing through; a pulled cable is an error; both can be repaired', async () => {
    cable.silence()
    assert.equal((await volley(5)).length, 0)
    cable.unplug()
    await assert.rejects(
      new Promise<void>((resolve, reject) =>
        socket.send('x', 7, cable.far, error => (error ? reject(error) : resolve())),
      ),
      /ENETUNREACH/,
    )
    cable.plug()
    cable.fair()
    await until('answers come again', async () => (await volley(3)).length === 3)
  })
})
