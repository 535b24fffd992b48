import assert from 'node:assert/strict'
import dns from 'node:dns'
import net from 'node:net'
import { networkInterfaces } from 'node:os'
import { test } from 'node:test'
import type { OsError } from '../../../src/lib/errors'
import { hashSecret } from '../../../src/lib/scrypt'
import { makeToken } from '../../../src/services/users'
import { TokenVerifier } from '../../../src/web/auth'
import { WebServer } from '../../../src/web/server'
import { ask, fakeContext, serve } from './helper'

const options = { host: '127.0.0.1', port: 0 }

test('start and stop may be called repeatedly, and the server starts again after a stop', async () => {
  const server = new WebServer(fakeContext(), options)
  await server.stop()
  await Promise.all([server.start(), server.start()])
  assert.equal(server.running, true)
  assert.equal((await ask(server, '/health')).status, 200)
  await Promise.all([server.stop(), server.stop()])
  assert.equal(server.running, false)
  await server.start()
  assert.equal((await ask(server, '/health')).status, 200)
  await server.stop()
})

test('localhost is the IPv4 loopback, whatever the name resolves to: the address in the log leads there', async t => {
  const lookup = t.mock.method(dns, 'lookup')
  const server = new WebServer(fakeContext(), { ...options, host: 'localhost' })
  await server.start()
  t.after(() => server.stop())
  assert.deepEqual(
    lookup.mock.calls.map(call => call.arguments[0]),
    ['127.0.0.1'],
  )
  assert.equal((await ask(server, '/health')).status, 200)
})

test('stop does not wait for idle connections and lets a running answer finish', async () => {
  let finish = (): void => undefined
  const slow = new Promise<void>(resolve => {
    finish = resolve
  })
  let asked = (): void => undefined
  const started = new Promise<void>(resolve => {
    asked = resolve
  })
  const run = async (): Promise<object> => {
    asked()
    await slow
    return { ok: true }
  }
  const server = new WebServer(fakeContext(), {
    ...options,
    routes: [{ method: 'GET', path: '/slow', role: 'open', summary: '', run }],
  })
  await server.start()
  const answer = ask(server, '/slow')
  await started
  const stopped = server.stop()
  finish()
  assert.equal((await answer).status, 200)
  await stopped
})

test('a request that stops the server still gets its answer, and another stop waits for it', async t => {
  const context = fakeContext()
  const stops: Promise<void>[] = []
  const run = async (): Promise<object> => {
    await server.stop()
    stops.push(server.stop())
    return { ok: true }
  }
  const server = await serve(t, context, {
    routes: [{ method: 'POST', path: '/stop', role: 'admin', summary: '', run }],
  })
  const { status } = await ask(server, '/stop', { method: 'POST' })
  await Promise.all(stops)
  assert.deepEqual([status, server.running], [200, false])
  await assert.rejects(ask(server, '/stop', { method: 'POST' }), /ECONNREFUSED|fetch failed/)
})

test('a busy port is PORT_BUSY with the port and what to do', async t => {
  const other = net.createServer().listen(0, '127.0.0.1')
  t.after(() => other.close())
  await new Promise(resolve => other.once('listening', resolve))
  const { port } = other.address() as net.AddressInfo
  const server = new WebServer(fakeContext(), { host: '127.0.0.1', port })
  await assert.rejects(server.start(), (error: OsError) => {
    assert.equal(error.code, 'PORT_BUSY')
    assert.ok(error.message.includes(String(port)))
    assert.match(error.hint, /--port/)
    return true
  })
  assert.equal(server.running, false)
})

test('an address that this machine does not have is NETWORK', async () => {
  const server = new WebServer(fakeContext(), { host: '192.0.2.1', port: 0 })
  await assert.rejects(server.start(), (error: OsError) => error.code === 'NETWORK')
})

test('with auth off it listens on loopback only and needs no token', async t => {
  const context = fakeContext()
  context.authOn = false
  for (const host of ['0.0.0.0', '::', '192.0.2.1']) {
    const open = new WebServer(context, { host, port: 0 })
    await assert.rejects(open.start(), (error: OsError) => error.code === 'CONFIG_INVALID')
  }
  const server = await serve(t, context)
  assert.equal((await ask(server, '/api/config', { token: false })).status, 200)
  context.authOn = true
  assert.equal((await ask(server, '/api/config', { token: false })).status, 401)
})

test('a body counts only where a route takes one: the body of a GET is not read', async t => {
  const server = await serve(t, fakeContext())
  assert.equal((await ask(server, '/api/config', { body: '{broken', headers: { 'Content-Length': '7' } })).status, 200)
  const broken = await ask(server, '/api/config', {
    method: 'PUT',
    body: '{broken',
    headers: { 'Content-Type': 'application/json' },
  })
  assert.equal(broken.status, 400)
  assert.match(broken.text, /the body is not JSON/)
})

test('when auth is switched off while bound to every address, the token is still required', async t => {
  const own = Object.values(networkInterfaces())
    .flat()
    .find(face => face?.family === 'IPv4' && !face.internal)?.address
  if (!own) return t.skip('this machine has no address but loopback')
  const context = fakeContext()
  const server = await serve(t, context, { host: '0.0.0.0' })
  const status = async (host: string): Promise<number> => {
    const { status } = await fetch(`http://${host}:${server.port}/api/config`, { headers: { Connection: 'close' } })
    return status
  }
  context.authOn = false
  assert.equal(await status('127.0.0.1'), 401)
  assert.equal(await status(own), 401)
})

test('a real token is accepted, wrong ones are reported and logged without their text', async t => {
  const token = makeToken()
  const stored = await hashSecret(token)
  const verifier = new TokenVerifier(() => stored)
  const context = fakeContext({
    auth: { enabled: () => true, verify: text => verifier.verify(text), remembered: text => verifier.remembered(text) },
  })
  const server = await serve(t, context)
  assert.equal((await ask(server, '/api/config', { token: 'guess-1' })).status, 401)
  const all = await Promise.all(Array.from({ length: 4 }, () => ask(server, '/api/config', { token })))
  assert.deepEqual(
    all.map(answer => answer.status),
    [200, 200, 200, 200],
  )
  assert.ok(context.lines.some(line => line.includes('wrong admin token from 127.0.0.1')))
  assert.ok(!context.lines.join('\n').includes('guess-1'))
})
