import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, describe, test } from 'node:test'
import { ask } from '../../../src/cli/client'
import { type ControlOptions, type ControlServer, socketPath, startControl } from '../../../src/gateway/control'
import { OsError } from '../../../src/lib/errors'
import { createLogger } from '../../../src/lib/logger'
import { until } from '../../lib/gateway'

const root = mkdtempSync(join(tmpdir(), 'os-node-ctl-'))
const servers: ControlServer[] = []

// inside a suite: hooks of the file itself run only after all listeners are closed
describe('the control socket', () => {
  after(async () => {
    for (const server of servers) await server.close()
    rmSync(root, { recursive: true, force: true })
  })

  let count = 0
  async function start(run: ControlOptions['run'], extra: Partial<ControlOptions> = {}): Promise<ControlServer> {
    const dataDir = join(root, String(count++))
    mkdirSync(dataDir)
    const server = await startControl({ dataDir, run, ...extra })
    servers.push(server)
    return server
  }

  async function dial(path: string): Promise<Socket> {
    const socket = connect(path)
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
    return socket
  }

  /** Sends raw text, returns the first `n` answers. */
  async function raw(path: string, text: string | Buffer, n = 1): Promise<Record<string, unknown>[]> {
    const socket = await dial(path)
    socket.on('error', () => undefined)
    socket.write(text)
    const lines: Record<string, unknown>[] = []
    for await (const line of createInterface({ input: socket })) {
      lines.push(JSON.parse(line))
      if (lines.length === n) break
    }
    socket.destroy()
    return lines
  }

  test('the control socket answers requests in order, and other users cannot open it', async () => {
    const server = await start(async ({ command, options, argv }) => ({
      result: { command, options, argv },
      exitCode: 0,
    }))
    assert.equal(statSync(server.path).mode & 0o777, 0o660)
    const answers = await raw(
      server.path,
      '{"id":1,"command":"a","options":{"x":1}}\n\n{"id":"two","argv":["b","--c"]}\n',
      2,
    )
    assert.deepEqual(answers, [
      { id: 1, ok: true, result: { command: 'a', options: { x: 1 } }, exit_code: 0 },
      { id: 'two', ok: true, result: { argv: ['b', '--c'] }, exit_code: 0 },
    ])
  })

  test('errors keep their code, hint and exit code', async () => {
    const server = await start(async () => {
      throw new OsError('NO_DRIVER', 'No available driver: X', { details: { medium: 'X' } })
    })
    const [answer] = await raw(server.path, '{"id":1,"command":"a"}\n')
    assert.equal(answer?.exit_code, 5)
    await assert.rejects(ask(await dial(server.path), { command: 'a', options: {} }), (error: OsError) => {
      assert.equal(error.code, 'NO_DRIVER')
      assert.equal(error.message, 'No available driver: X')
      assert.equal(error.details.medium, 'X')
      return true
    })
  })

  test('an invalid request is answered and stops nothing', async () => {
    const server = await start(async () => ({ result: 1 }))
    for (const bad of [
      'nonsense',
      '[]',
      '5',
      'null',
      '{}',
      '{"command":5}',
      '{"command":"a","options":[]}',
      '{"argv":[1]}',
    ]) {
      const [answer] = await raw(server.path, `${bad}\n`)
      assert.equal(answer?.ok, false, bad)
      assert.equal((answer?.error as { code: string } | undefined)?.code, 'BAD_REQUEST', bad)
    }
    const [bytes] = await raw(server.path, Buffer.from([0xff, 0xfe, 0, 10]))
    assert.equal(bytes?.ok, false)
    assert.deepEqual((await raw(server.path, '{"id":1,"command":"a"}\n'))[0]?.result, 1)
  })

  test('a line that is too long is refused and the connection closed', async () => {
    const server = await start(async () => ({ result: 1 }), { maxLineBytes: 1000 })
    for (const text of ['x'.repeat(5000), `${'y'.repeat(1001)}\n`]) {
      const [answer] = await raw(server.path, text)
      assert.match(String((answer?.error as { error: string } | undefined)?.error), /at most 1000 bytes/)
    }
    const split = await dial(server.path)
    split.write('{"id":1,"com')
    split.write('mand":"a"}\n')
    const line = await new Promise(resolve => split.once('data', resolve))
    assert.match(String(line), /"result":1/)
    split.destroy()
  })

  test('rows are sent at the speed of the reader', async () => {
    let made = 0
    async function* rows(): AsyncGenerator<unknown> {
      for (; made < 20_000; made++) yield { seq: made, filler: 'x'.repeat(200) }
    }
    const server = await start(async () => ({ rows: rows() }))
    let got = 0
    let ahead = 0
    const answer = await ask(
      await dial(server.path),
      { command: 'a', options: {} },
      {
        onRow: async row => {
          assert.equal((row as { seq: number }).seq, got++)
          if (got % 1000 === 0) await new Promise(resolve => setImmediate(resolve))
          ahead = Math.max(ahead, made - got)
        },
      },
    )
    assert.equal(got, 20_000)
    assert.equal(answer.exitCode, 0)
    assert.ok(ahead < 19_000, `the gateway was ${ahead} rows ahead`)
  })

  test('progress is sent once per percent, next to the answer', async () => {
    const server = await start(async (_, { progress }) => {
      for (let done = 0; done <= 1000; done++) {
        progress(done, 1000)
        await new Promise(resolve => setImmediate(resolve))
      }
      return { result: { ok: true } }
    })
    const seen: [number, number][] = []
    const answer = await ask(
      await dial(server.path),
      { command: 'a', options: {} },
      { progress: (...at) => void seen.push(at) },
    )
    assert.deepEqual(answer, { result: { ok: true }, exitCode: 0 })
    assert.ok(seen.length > 1 && seen.length <= 100, `${seen.length}`)
    assert.ok(seen.every(([done, total], k) => total === 1000 && done > (seen[k - 1]?.[0] ?? 0)))
  })

  test('a reader that stops reading pauses the rows, and one that disconnects ends them', async () => {
    let made = 0
    let ended = false
    async function* rows(): AsyncGenerator<unknown> {
      try {
        for (;;) yield { seq: made++, filler: 'x'.repeat(1000) }
      } finally {
        ended = true
      }
    }
    const aborted: AbortSignal[] = []
    const server = await start(async (_, { signal }) => {
      aborted.push(signal)
      return { rows: rows() }
    })
    const socket = await dial(server.path)
    socket.pause()
    socket.write('{"id":1,"command":"a"}\n')
    let before = -1
    while (before !== made || made === 0) {
      before = made
      await new Promise(resolve => setTimeout(resolve, 30))
    }
    assert.ok(made < 5000, `${made} rows were made for nobody`)
    socket.destroy()
    await until('the rows end', () => ended && aborted[0]?.aborted)
  })

  test('a client that sends requests faster than they are answered is throttled', async () => {
    let most = 0
    let running = 0
    const server = await start(async () => {
      most = Math.max(most, ++running)
      await new Promise(resolve => setImmediate(resolve))
      running--
      return { result: 1 }
    })
    const answers = await raw(server.path, '{"id":1,"command":"a"}\n'.repeat(500), 500)
    assert.equal(answers.length, 500)
    assert.equal(most, 1)
  })

  test('a busy gateway is waited for, a silent one is TIMEOUT, a vanished one NO_GATEWAY', async t => {
    let release: () => void = () => undefined
    let asked: () => void = () => undefined
    const working = new Promise<void>(resolve => {
      asked = resolve
    })
    const server = await start(
      () =>
        new Promise(resolve => {
          release = () => resolve({ result: { ok: 1 } })
          asked()
        }),
      { workingMs: 10 },
    )
    const socket = await dial(server.path)
    t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
    const slow = ask(socket, { command: 'a', options: {} }, { silenceMs: 60 })
    await working
    for (let ms = 0; ms < 150; ms += 10) {
      const word = once(socket, 'data', { signal: AbortSignal.timeout(60_000) })
      t.mock.timers.tick(10)
      await word
      await new Promise(setImmediate)
    }
    release()
    assert.deepEqual((await slow).result, { ok: 1 })
    t.mock.timers.reset()
    const silent = await start(() => new Promise(() => undefined), { workingMs: 60_000 })
    await assert.rejects(
      ask(await dial(silent.path), { command: 'a', options: {} }, { silenceMs: 30 }),
      (error: OsError) => error.code === 'TIMEOUT',
    )
    const leaving = ask(await dial(silent.path), { command: 'a', options: {} })
    setTimeout(() => void silent.close(), 20)
    await assert.rejects(leaving, (error: OsError) => error.code === 'NO_GATEWAY')
  })

  test('a stale socket file is replaced, and close removes it', async () => {
    const dataDir = join(root, 'dead')
    mkdirSync(dataDir)
    writeFileSync(socketPath(dataDir), '')
    const server = await startControl({ dataDir, run: async () => ({}) })
    assert.equal(server.path, socketPath(dataDir))
    await server.close()
    assert.ok(!existsSync(server.path))
  })

  test('a path too long for the kernel is replaced by a short one that only this user can enter', async () => {
    const dataDir = join(root, 'long'.repeat(30))
    mkdirSync(dataDir)
    const server = await startControl({ dataDir, run: async () => ({ result: { far: true } }) })
    assert.ok(Buffer.byteLength(server.path) <= 100)
    assert.equal(statSync(join(server.path, '..')).mode & 0o777, 0o700)
    assert.deepEqual((await ask(await dial(server.path), { command: 'a', options: {} })).result, { far: true })
    await server.close()
    assert.ok(!existsSync(join(server.path, '..')))
  })

  test('where the data directory cannot contain a socket, the socket is elsewhere, in a folder of this user', async () => {
    const told: string[] = []
    const logger = createLogger({ write: line => void told.push(line) })
    const dataDir = join(root, 'nowhere')
    const server = await startControl({ dataDir, run: async () => ({ result: { far: true } }), logger })
    assert.equal(statSync(join(server.path, '..')).mode & 0o777, 0o700)
    assert.match(
      told.join(''),
      new RegExp(`WARN .*the control socket is ${server.path}: ${dataDir}/os-node.sock cannot listen`),
    )
    assert.deepEqual((await ask(await dial(server.path), { command: 'a', options: {} })).result, { far: true })
    await server.close()
    assert.ok(!existsSync(join(server.path, '..')))
  })
})
