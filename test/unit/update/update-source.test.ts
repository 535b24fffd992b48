// An update over HTTP: with ranges and without, over connections that break, and from servers that refuse.
import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { fromUrl } from '../../../src/update/update-source'

const BYTES = Buffer.from(Array.from({ length: 600_000 }, (_, k) => (k * 7 + (k >> 8)) & 0xff))
const fromOf = (req: IncomingMessage): number => Number(/bytes=(\d+)-/.exec(req.headers.range ?? '')?.[1] ?? 0)
const endOf = (req: IncomingMessage): number => Number(/-(\d+)$/.exec(req.headers.range!)![1]) + 1
/** the range of the first request after a gap */
const after = (at: number): string => `bytes=${at}-${at + 262_143}`

async function serve(t: TestContext, answer: (req: IncomingMessage, res: ServerResponse) => void, limits: object = {}) {
  const asked: string[] = []
  const server = createServer((req, res) => {
    asked.push(req.headers.range ?? '')
    answer(req, res)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const source = fromUrl(`http://127.0.0.1:${(server.address() as AddressInfo).port}/x.update`, Date.now, {
    delay: () => 1,
    ...limits,
  })
  t.after(() => source.close())
  return { source, asked }
}
const ranged = (req: IncomingMessage, res: ServerResponse): void => {
  const from = fromOf(req)
  if (from >= BYTES.length) return void res.writeHead(416).end()
  res.writeHead(206).end(BYTES.subarray(from, endOf(req)))
}

test('adjacent data is read on; a small gap is read over, a large one and a step back are requested', async t => {
  const { source, asked } = await serve(t, ranged)
  for (const [at, length] of [
    [0, 12],
    [12, 5000],
    [60_000, 100],
    [400_000, 1000],
    [100, 50],
    [599_990, 10],
  ] as const)
    assert.ok((await source.read(at, length)).equals(BYTES.subarray(at, at + length)), `${at}`)
  assert.deepEqual(asked, [0, 400_000, 100, 599_990].map(after))
  assert.ok(source.received() >= 12 + 5000 + 100 + 1000 + 50 + 10)
})

test('a range that follows one that was read to its end is twice as long', async t => {
  const { source, asked } = await serve(t, ranged)
  for (let at = 0; at < BYTES.length; at += 50_000)
    assert.ok((await source.read(at, 50_000)).equals(BYTES.subarray(at, at + 50_000)), `${at}`)
  assert.deepEqual(asked, [after(0), 'bytes=262144-786431'])
  assert.equal(source.received(), BYTES.length)
})

test('from a server without ranges the file is read from its beginning', async t => {
  const { source, asked } = await serve(t, (_, res) => res.writeHead(200).end(BYTES))
  for (const [at, length] of [
    [10, 20],
    [500_000, 1000],
    [0, 4],
  ] as const)
    assert.ok((await source.read(at, length)).equals(BYTES.subarray(at, at + length)), `${at}`)
  assert.deepEqual(asked, [10, 0].map(after))
})

test('a broken connection is reopened where it broke; five failures in a row end it', async t => {
  let left = 4
  const { source, asked } = await serve(t, (req, res) => {
    const from = fromOf(req)
    if (left-- <= 0) return ranged(req, res)
    res.writeHead(206, { 'content-length': BYTES.length - from })
    res.write(BYTES.subarray(from, from + 1000), () => res.destroy())
  })
  assert.ok((await source.read(0, 50_000)).equals(BYTES.subarray(0, 50_000)))
  assert.deepEqual(asked, [0, 1000, 2000, 3000, 4000].map(after))

  const dead = await serve(t, (_, res) => res.destroy())
  await assert.rejects(dead.source.read(0, 10), { code: 'E_UPDATE_SOURCE', message: /x\.update cannot be read: / })
  assert.equal(dead.asked.length, 5)
})

test('a server that sends too slowly, or beyond the end of the window, is dropped', async t => {
  const drip = (req: IncomingMessage, res: ServerResponse): void => {
    res.writeHead(206)
    let at = fromOf(req)
    const timer = setInterval(() => res.write(BYTES.subarray(at, ++at)), 5)
    res.on('close', () => clearInterval(timer))
  }
  const slow = await serve(t, drip, { slowest: { bytes: 1024, ms: 60 } })
  await assert.rejects(slow.source.read(0, 1000), { code: 'E_UPDATE_SOURCE', message: /sends less than 1 KiB in/ })
  const late = await serve(t, drip, { until: Date.now() + 60 })
  await assert.rejects(late.source.read(0, 1000), { code: 'E_UPDATE_SOURCE', message: /the time for updates ended/ })
})

test('a server that refuses, and a file that is too short, are reported', async t => {
  const refusing = await serve(t, (_, res) => res.writeHead(404).end('no'))
  await assert.rejects(refusing.source.read(0, 10), { code: 'E_UPDATE_SOURCE', message: /the server answers 404/ })
  const short = await serve(t, ranged)
  await assert.rejects(short.source.read(BYTES.length, 1), { code: 'E_UPDATE', message: /is truncated/ })
  await assert.rejects(short.source.read(BYTES.length - 5, 6), { code: 'E_UPDATE', message: /is truncated/ })
})
