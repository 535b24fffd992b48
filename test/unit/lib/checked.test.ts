// A caller's mistake names the argument, in every public method of the library, before anything is done.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as library from '../../../src/index'
import { Bench } from '../node/helper'

const bench = new Bench()

test('a wrong argument is BAD_ARGUMENT with its name: every method of the table, each of its arguments', async () => {
  const node = bench.node('checked', { assigned_id: 7 })
  const made: [object, Record<string, unknown[][]>][] = [
    [
      node,
      {
        ensureId: [
          [5, 8080],
          ['h', '8080'],
          ['h', 1, 'meta'],
          ['h', 1, null, '5'],
          ['h', 70_000],
        ],
        ensureTime: [[5], [null, -1], [null, null, Number.NaN]],
        transmit: [['x'], [null], [[], 5], [[], null, 5], [[], null, 'ONLINE', 5]],
        transmitFast: [['x'], [[], {}]],
        transmitBatch: [['x'], [[], 5]],
        dispatch: [[5], [null], ['x', 5]],
        dispatchWithReply: [['x'], [new Uint8Array(1), 5]],
        receive: [['x'], [null], [[1, 2]]],
        receiveViaProtocol: [['x'], []],
        relay: [['x']],
      },
    ],
    [new library.Engine(), { compress: [['x'], [null]], decompress: [[5], [null]] }],
    [new library.Fusion(), { runEngine: [[5], ['1;a', 5]], decompress: [['x']], relay: [['x']] }],
    [
      new library.Standardizer(''),
      {
        standardize: [
          [5, 'ON', []],
          ['a', 5, []],
          ['a', 'ON', 'x'],
          ['a', 'ON', [], 5],
        ],
      },
    ],
    [
      new library.HandshakeManager(),
      {
        getStrategy: [['x']],
        noteServerTime: [['x']],
        classifyAndDispatch: [['x'], [null]],
        requestIdViaTransport: [[5], [() => undefined, 5], [() => undefined, () => null, 'meta']],
        requestIdPoolViaTransport: [[() => undefined, () => null, 'ten']],
        requestTimeViaTransport: [[null]],
      },
    ],
    [
      new library.IdAllocator({ baseDir: bench.dir }),
      {
        allocateId: [['meta']],
        allocatePool: [['ten']],
        releaseId: [['x']],
        releasePool: [[5]],
        isAllocated: [[null]],
        getMeta: [['x']],
      },
    ],
    [new library.TransporterManager(node), { getDriver: [[5]], refreshProtocol: [[]] }],
    [
      new library.ServiceManager(),
      {
        mount: [
          [5, {}],
          ['a', 5],
        ],
        get: [[5]],
        load: [[]],
        dispatchPluginCli: [['a', 'b']],
      },
    ],
    [new library.TerminalUi(), { renderSection: [[5]], renderText: [['x']], runBios: [['x']] }],
    [
      node.dbManager!,
      {
        queryDevices: [['x']],
        queryPackets: [[5], [null, 5], [null, null, 'x']],
        queryPacket: [[5]],
        querySensors: [[5]],
      },
    ],
  ]
  for (const [on, methods] of made)
    for (const [method, calls] of Object.entries(methods))
      for (const args of calls) {
        const call = async () => (on as Record<string, (...given: unknown[]) => unknown>)[method]!(...args)
        const where = new RegExp(`^\\w+\\.${method}: \\w+ must be `)
        await assert.rejects(call, { code: 'BAD_ARGUMENT', message: where }, `${method}(${String(args)})`)
      }
  const L = library as unknown as Record<string, new (...args: unknown[]) => unknown>
  const constructors: [string, unknown[]][] = [
    ['Node', [5]],
    ['Node', [null, 5]],
    ['Engine', [5]],
    ['Fusion', [5]],
    ['Standardizer', [5]],
    ['IdAllocator', ['.', 1, 5]],
    ['IdAllocator', [{}, 5]],
    ['HandshakeManager', [3]],
    ['TransporterManager', ['x']],
    ['TransporterManager', [null]],
    ['ServiceManager', ['x']],
    ['TerminalUi', ['x']],
    ['DatabaseManager', ['x']],
    ['DatabaseManager', [null]],
  ]
  for (const [name, args] of constructors)
    assert.throws(
      () => new L[name]!(...args),
      { code: 'BAD_ARGUMENT', message: new RegExp(`^new ${name}: \\w+ must be `) },
      name,
    )
  await assert.rejects(
    node.ensureId(5 as never, 8080),
    { details: { argument: 'serverIp' } },
    'a method that promises rejects',
  )
  await node.close()
})

test('an option unknown to a constructor is refused with the name that was probably meant', async () => {
  const L = library as unknown as Record<string, new (...args: unknown[]) => unknown>
  const store = bench.node('named', { assigned_id: 7 })
  const cases: [name: string, before: unknown[], typed: string, meant: string][] = [
    ['Node', [null], 'clok', 'clock'],
    ['Engine', [null], 'precison', 'precision'],
    ['Fusion', [null], 'localID', 'localId'],
    ['Fusion', [null], 'precison', 'precision'],
    ['Standardizer', [''], 'setings', 'settings'],
    ['IdAllocator', [], 'startid', 'startId'],
    ['IdAllocator', [{}], 'stroe', 'store'],
    ['HandshakeManager', [], 'expireSecond', 'expireSeconds'],
    ['HandshakeManager', [{}], 'alocator', 'allocator'],
    ['TransporterManager', [store], 'timer', 'timers'],
    ['ServiceManager', [null, 'runtime'], 'limitMS', 'limitMs'],
    ['TerminalUi', [null], 'titel', 'title'],
    ['DatabaseManager', [{}], 'datadir', 'dataDir'],
    ['SecureClient', [], 'requiresecure', 'requireSecure'],
    ['SecureServer', [], 'rekeyAfter', 'rekeyAfterS'],
    ['SecureSessions', [], 'storepath', 'storePath'],
    ['Receiver', [], 'maxsources', 'maxSources'],
    ['UplinkEncoder', [], 'adi', 'aid'],
  ]
  for (const [name, before, typed, meant] of cases)
    assert.throws(
      () => new L[name]!(...before, { [typed]: undefined }),
      {
        code: 'BAD_ARGUMENT',
        message: new RegExp(`^new ${name}: no option is named "${typed}"; did you mean ${meant}\\?$`),
        details: { argument: typed },
      },
      `${name} ${typed}`,
    )
  const constructors = Object.entries(L).filter(([, value]) => /^class\b/.test(String(value)))
  const without = ['CoreManager', 'OsError', 'DisplayProvider', 'DisplayRegistry', 'FlashLog', 'LogFiles']
  const named = [...new Set(cases.map(([name]) => name)), ...without].sort()
  assert.deepEqual(constructors.map(([name]) => name).sort(), named, 'a class that this test has not heard of')
  assert.throws(() => library.createPureCore({ resovler: 1 } as never), /did you mean resolver\?/)
  await assert.rejects(library.FlashLog.open({ dri: 'x' } as never), /FlashLog\.open: .*"dri"; did you mean dir\?/)
  assert.throws(() => new L.IdAllocator!({ zzzzzzzz: 1 }), /there are baseDir, startId, endId/)
  await store.close()
})
