// Server-sent events over a real connection: the initial state, changes, and what ends a stream.
import assert from 'node:assert/strict'
import net from 'node:net'
import { test } from 'node:test'
import { EventStreams } from '../../../src/web/events'
import { until } from '../../lib/gateway'
import { ask, TOKEN } from './helper'
import { events, world } from './world'

const reading = (value: number) => ({
  device_id: 'pi-shed',
  state: 'ONLINE',
  t_raw: 1_710_000_000_000 + value,
  sensors: [{ id: 'cpu', status: 'OK', unit: '%', value }],
  medium: 'local',
  source_aid: 42,
})

test('a stream starts with the current state, then reports readings, links and jobs', async t => {
  const w = await world(t)
  const stream = await events(w.server, TOKEN)
  t.after(() => stream.close())
  assert.deepEqual([stream.status, stream.type], [200, 'text/event-stream; charset=utf-8'])
  assert.equal((await stream.next('reading')).device_id, 'pi-shed')
  const link = await stream.next('link')
  assert.deepEqual([link.name, link.state, link.delivery], ['up1', 'up', 'acked'])
  // of several simultaneous ones the newest is reported
  for (let k = 10; k <= 20; k++) w.reading(reading(k))
  assert.deepEqual(await stream.next('reading'), reading(20))
  w.link('up1')
  w.link('gone')
  assert.equal((await stream.next('link')).name, 'up1')
  assert.deepEqual(await stream.next('link'), { name: 'gone', state: 'removed' })
  await w.send('POST', '/api/oscli/execute', { command: 'status' })
  const job = await stream.next('job')
  assert.deepEqual(
    [job.status, job.command, 'stdout' in job, Number(job.stdout_len) > 0],
    ['completed', 'status', false, true],
  )
})

test('the kinds parameter selects events; unknown kinds are 400', async t => {
  const w = await world(t)
  const stream = await events(w.server, TOKEN, '?kinds=links')
  t.after(() => stream.close())
  w.reading(reading(1))
  w.link('up1')
  await stream.next('link')
  await stream.next('link')
  w.reading(reading(2))
  w.link('later')
  for (let name = ''; name !== 'later'; ) name = String((await stream.next('link')).name)
  assert.deepEqual(stream.untaken(), [])
  const { status, json } = await ask(w.server, '/api/events?kinds=links,birds')
  assert.deepEqual([status, json.error], [400, 'kinds must be of readings, links, jobs'])
})

test('with units=display readings are in readable units', async t => {
  const w = await world(t)
  const stream = await events(w.server, TOKEN, '?kinds=readings&units=display')
  t.after(() => stream.close())
  await stream.next('reading')
  const warm = (value: number, unit: string) => ({ ...reading(1), sensors: [{ id: 't', status: 'OK', unit, value }] })
  w.reading(warm(292.72999999999996, 'K'))
  assert.deepEqual(await stream.next('reading'), warm(19.58, '°C'))
})

test('a viewer gets no events of jobs', async t => {
  const w = await world(t)
  const stream = await events(w.server, await w.session('viewer'))
  t.after(() => stream.close())
  await w.send('POST', '/api/oscli/execute', { command: 'status' })
  w.link('later')
  for (let name = ''; name !== 'later'; ) name = String((await stream.next('link')).name)
  assert.ok(!stream.untaken().includes('job'))
})

test('an operator gets events of what operators may run, not of the jobs of admins', async t => {
  const w = await world(t)
  const stream = await events(w.server, await w.session('operator'), '?kinds=jobs')
  t.after(() => stream.close())
  await w.send('POST', '/api/oscli/execute', { command: 'config-set --key engine_settings.precision --value 5' })
  await w.send('POST', '/api/oscli/execute', { command: 'status' })
  assert.equal((await stream.next('job')).command, 'status')
})

test('S9: a reader that never reads its stream is closed', async t => {
  const w = await world(t, { options: { slowClientMs: 300 } })
  const socket = net.connect(w.server.port, '127.0.0.1')
  t.after(() => socket.destroy())
  socket.on('error', () => undefined) // a reset is how it is closed
  socket.pause()
  socket.write(`GET /api/events HTTP/1.1\r\nHost: localhost\r\nX-Admin-Token: ${TOKEN}\r\n\r\n`)
  const streams = (): number => w.server.facts().http.event_streams ?? 0
  await until('it is open', () => streams() === 1)
  const long = 'x'.repeat(20_000)
  let k = 0
  const feed = setInterval(() => {
    for (let n = 0; n < 200; n++) w.reading({ ...reading(k++), device_id: `${k % 900}${long}` })
  }, 20)
  t.after(() => clearInterval(feed))
  await until('it is closed', () => streams() === 0)
})

test('a stop of the server ends every stream', async t => {
  const w = await world(t)
  const stream = await events(w.server, TOKEN)
  await w.server.stop()
  // to its end: not cut off
  assert.equal(await stream.ended, true)
})

/** A stream with manual timers. */
function byHand() {
  const due: (() => void)[] = []
  const streams = new EventStreams({
    after: (_, run) => {
      due.push(run)
      return () => undefined
    },
  })
  const written: string[] = []
  const on: Record<string, () => void> = {}
  let holds = true
  let listener = (_: ReturnType<typeof reading>): void => undefined
  let listening = 0
  const res = {
    writableNeedDrain: false,
    writeHead: () => res,
    write: (text: string) => written.push(text),
    end: () => on.close?.(),
    on: (event: string, run: () => void) => {
      on[event] = run
    },
    once: (event: string, run: () => void) => {
      on[event] = run
    },
  }
  const call = {
    context: {
      latest: () => [],
      status: () => ({ links: {} }),
      events: {
        onReading: (run: typeof listener) => {
          listener = run
          listening++
          return () => listening--
        },
        onLink: () => () => undefined,
      },
      jobs: { onJob: () => () => undefined },
    },
    query: {},
    session: { role: 'admin', username: 'admin' },
    remote: '192.0.2.1',
    access: { holds: () => holds },
    request: {},
  }
  return {
    streams,
    res,
    on,
    written,
    open: (who = 0) => {
      const session = { ...call.session, username: `user${who}` }
      streams.open({ ...call, session, remote: `192.0.2.${who}` } as never, res as never)
    },
    say: (value: number) => listener({ ...reading(value), device_id: `d${value}` }),
    run: () => {
      for (const one of due.splice(0)) one()
    },
    revoke: () => {
      holds = false
    },
    listening: () => listening,
  }
}

test('a slow reader gets the newest state later, and its queue is limited', () => {
  const w = byHand()
  w.open()
  w.written.length = 0
  w.res.writableNeedDrain = true
  for (let k = 0; k < 1500; k++) w.say(k)
  w.run()
  assert.deepEqual(w.written, [])
  assert.equal(w.streams.dropped, 1500 - 1024)
  w.res.writableNeedDrain = false
  w.on.drain?.()
  w.run()
  assert.equal(w.written.join('').match(/^event: reading$/gm)?.length, 1024)
  assert.match(w.written.join(''), /"device_id":"d1499"/)
})

test('a stream whose session ends is closed with the next beat, and leaves no listener', () => {
  const w = byHand()
  w.open()
  w.run()
  assert.equal(w.streams.size, 1)
  assert.ok(w.written.includes(': alive\n\n'))
  w.revoke()
  w.run()
  assert.deepEqual([w.streams.size, w.listening()], [0, 0])
})

test('at most 32 streams are open, 12 of one user', () => {
  const w = byHand()
  for (let k = 0; k < 12; k++) w.open()
  assert.throws(() => w.open(), { code: 'TOO_MANY_STREAMS', message: /^12 streams of user0/ })
  for (let k = 12; k < 32; k++) w.open(k)
  assert.throws(() => w.open(99), { code: 'TOO_MANY_STREAMS', message: /^32 streams are open/ })
})
