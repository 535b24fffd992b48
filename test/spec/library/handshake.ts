// Specification, "Handshake manager", "Control packet layouts", "Secure session", "Strategy of outgoing data packets".
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { HandshakeManager } from '../../../src/index'
import type { Row, Table } from '../rows'
import * as is from '../shape'
import { constructorOptions, parameters, sameParameters } from '../signature'
import { library, newFolder, T, theServer } from '../world'

type Manager = InstanceType<typeof library.HandshakeManager>

const MS = T * 1000
const ADDR = '192.0.2.1:8080'
const session = is.record({ dict_ready: is.boolean })

interface Method {
  readonly name: string
  readonly method: keyof HandshakeManager
  readonly parameters: readonly string[]
  readonly returns: is.Shape
  call(manager: Manager): unknown
}

/** Both ends of a request over the loopback. */
async function over<T>(act: (send: (packet: Uint8Array) => void, recv: () => Promise<Uint8Array | null>) => T) {
  const { createSocket } = await import('node:dgram')
  const socket = createSocket('udp4')
  const { port } = await theServer()
  const next = (): Promise<Uint8Array> => new Promise(resolve => void socket.once('message', resolve))
  try {
    return await act(packet => socket.send(packet, port, '127.0.0.1'), next)
  } finally {
    socket.close()
  }
}

const METHODS: readonly Method[] = [
  {
    name: 'get_strategy',
    method: 'getStrategy',
    parameters: ['srcAid', 'hasTemplate = false'],
    returns: is.exactly('FULL_PACKET'),
    call: manager => manager.getStrategy(7),
  },
  {
    name: 'commit_success',
    method: 'commitSuccess',
    parameters: ['srcAid'],
    returns: is.nothing,
    call: manager => {
      manager.commitSuccess(7)
      manager.commitSuccess(7)
      assert.equal(manager.getStrategy(7, true), 'FULL_PACKET')
      const last = manager.commitSuccess(7)
      assert.equal(manager.getStrategy(7, true), 'DIFF_PACKET')
      return last
    },
  },
  {
    name: 'note_local_plaintext_sent',
    method: 'noteLocalPlaintextSent',
    parameters: ['aid', 'timestampRaw', 'addr = null'],
    returns: session,
    call: manager => manager.noteLocalPlaintextSent(7, MS, ADDR),
  },
  {
    name: 'establish_remote_plaintext',
    method: 'establishRemotePlaintext',
    parameters: ['aid', 'timestampRaw', 'addr = null'],
    returns: is.record({ dict_ready: is.exactly(true) }),
    call: manager => manager.establishRemotePlaintext(7, MS, ADDR),
  },
  {
    name: 'confirm_secure_dict',
    method: 'confirmSecureDict',
    parameters: ['aid', 'timestampRaw = null', 'addr = null'],
    returns: is.exactly(true),
    call: manager => {
      assert.equal(manager.confirmSecureDict(7), false, 'no pending key, and no time to make one of')
      manager.noteLocalPlaintextSent(7, MS)
      return manager.confirmSecureDict(7, MS, ADDR)
    },
  },
  {
    name: 'mark_secure_channel',
    method: 'markSecureChannel',
    parameters: ['aid', 'addr = null'],
    returns: is.nothing,
    call: manager => {
      manager.establishRemotePlaintext(7, MS)
      const marked = manager.markSecureChannel(7, ADDR)
      const { state, decrypt_confirmed } = manager.establishRemotePlaintext(7, MS) as never as Record<string, unknown>
      assert.deepEqual([state, decrypt_confirmed], ['SECURE', true])
      return marked
    },
  },
  {
    name: 'has_secure_dict',
    method: 'hasSecureDict',
    parameters: ['aid'],
    returns: is.exactly(true),
    call: manager => {
      assert.equal(manager.hasSecureDict(7), false)
      manager.establishRemotePlaintext(7, MS)
      return manager.hasSecureDict(7)
    },
  },
  {
    name: 'should_encrypt_outbound',
    method: 'shouldEncryptOutbound',
    parameters: ['aid'],
    returns: is.exactly(true),
    call: manager => {
      manager.noteLocalPlaintextSent(7, MS)
      assert.equal(manager.shouldEncryptOutbound(7), false, 'the key is only pending')
      manager.confirmSecureDict(7, MS)
      return manager.shouldEncryptOutbound(7)
    },
  },
  {
    name: 'get_session_key',
    method: 'getSessionKey',
    parameters: ['aid'],
    returns: is.bytes,
    call: manager => {
      is.none(manager.getSessionKey(7))
      manager.establishRemotePlaintext(7, MS)
      return manager.getSessionKey(7)
    },
  },
  {
    name: 'note_server_time',
    method: 'noteServerTime',
    parameters: ['ts'],
    returns: is.boolean,
    call: manager => manager.noteServerTime(T),
  },
  {
    name: 'classify_and_dispatch',
    method: 'classifyAndDispatch',
    parameters: ['rawBytes', 'addr = null'],
    returns: is.record({ type: is.string, cmd: is.integer, result: is.dict, response: is.bytes }),
    call: manager => manager.classifyAndDispatch(Buffer.of(0x09, 0, 1)),
  },
  {
    name: 'request_id_via_transport',
    method: 'requestIdViaTransport',
    parameters: ['sendFn', 'recvFn', 'deviceMeta = null', 'timeout = 5'],
    returns: is.integer,
    call: manager => over((send, recv) => manager.requestIdViaTransport(send, recv, { device_id: 'spec' })),
  },
  {
    name: 'request_id_pool_via_transport',
    method: 'requestIdPoolViaTransport',
    parameters: ['sendFn', 'recvFn', 'count = 10', 'meta = null', 'timeout = 5'],
    returns: is.listOf(is.integer),
    call: async manager => {
      const ids = await over((send, recv) => manager.requestIdPoolViaTransport(send, recv))
      assert.equal(new Set(ids).size, 10, 'ten by default, each once')
      assert.equal((await over((send, recv) => manager.requestIdPoolViaTransport(send, recv, 3))).length, 3)
      return ids
    },
  },
  {
    name: 'request_time_via_transport',
    method: 'requestTimeViaTransport',
    parameters: ['sendFn', 'recvFn', 'timeout = 3'],
    returns: is.integer,
    call: manager => over((send, recv) => manager.requestTimeViaTransport(send, recv)),
  },
  {
    name: 'build_id_request',
    method: 'buildIdRequest',
    parameters: ['deviceMeta = null'],
    returns: is.bytes,
    call: manager => {
      const packet = manager.buildIdRequest({ device_id: 'x' })
      assert.equal(packet[0], 0x01)
      assert.deepEqual(JSON.parse(Buffer.from(packet.subarray(3)).toString()), { device_id: 'x' })
      return manager.buildIdRequest()
    },
  },
  {
    name: 'build_id_pool_request',
    method: 'buildIdPoolRequest',
    parameters: ['count = 10', 'meta = null'],
    returns: is.bytes,
    call: manager => {
      const packet = Buffer.from(manager.buildIdPoolRequest())
      assert.deepEqual([packet[0], packet.readUInt16BE(3)], [0x03, 10])
      const more = Buffer.from(manager.buildIdPoolRequest(300, { device_id: 'x' }))
      assert.deepEqual([more.readUInt16BE(3), JSON.parse(more.toString('utf8', 5))], [300, { device_id: 'x' }])
      return packet
    },
  },
  {
    name: 'build_ping',
    method: 'buildPing',
    parameters: [],
    returns: is.bytes,
    call: manager => {
      const [first, second] = [Buffer.from(manager.buildPing()), Buffer.from(manager.buildPing())]
      assert.deepEqual([first[0], first.length, second.readUInt16BE(1)], [0x09, 3, first.readUInt16BE(1) + 1])
      return first
    },
  },
  {
    name: 'build_time_request',
    method: 'buildTimeRequest',
    parameters: [],
    returns: is.bytes,
    call: manager => {
      const packet = manager.buildTimeRequest()
      assert.deepEqual([packet[0], packet.length], [0x0b, 3])
      return packet
    },
  },
]

const row = ({ name, method, parameters: wanted, returns, call }: Method): Row => ({
  name,
  observe: async () => {
    sameParameters(parameters(HandshakeManager.prototype[method] as never), wanted, name)
    returns(await call(new library.HandshakeManager()), name)
  },
})

export const handshakeTables: readonly Table[] = [
  {
    title: 'Handshake manager',
    rows: [
      {
        name: 'constructor',
        observe: () => {
          assert.deepEqual(constructorOptions(HandshakeManager), [
            'targetSyncCount = 3',
            'registryDir = null',
            'expireSeconds = 86400',
            'secureStorePath = null',
          ])
          const one = new library.HandshakeManager({ targetSyncCount: 1 })
          one.commitSuccess(7)
          assert.equal(one.getStrategy(7, true), 'DIFF_PACKET')
        },
      },
      {
        name: 'constructor: expire_seconds ends sessions and sync entries',
        observe: () => {
          let now = T * 1000
          const clock = { wall: () => now, mono: () => now }
          const manager = new library.HandshakeManager({ expireSeconds: 100, targetSyncCount: 1 }, { clock })
          manager.establishRemotePlaintext(7, MS)
          manager.commitSuccess(7)
          now += 90_000
          assert.equal(manager.getStrategy(7), 'FULL_PACKET', 'no template')
          assert.equal(manager.getStrategy(7, true), 'DIFF_PACKET')
          assert.equal(manager.hasSecureDict(7), true)
          now += 150_000
          assert.equal(manager.hasSecureDict(7), false)
          assert.equal(manager.getStrategy(7), 'FULL_PACKET', 'a new entry')
          assert.equal(manager.getStrategy(7, true), 'FULL_PACKET', 'that counts from nothing')
        },
      },
      {
        name: 'constructor: registry_dir, whose templates count as known to the peer',
        observe: () => {
          const registryDir = newFolder()
          mkdirSync(join(registryDir, '00/00'), { recursive: true })
          writeFileSync(join(registryDir, '00/00/7.json'), '{}')
          const strategy = (manager: Manager): string => {
            manager.getStrategy(7)
            return manager.getStrategy(7, true)
          }
          assert.equal(strategy(new library.HandshakeManager()), 'FULL_PACKET')
          assert.equal(strategy(new library.HandshakeManager({ registryDir })), 'DIFF_PACKET')
        },
      },
      {
        name: 'constructor: secure_store_path keeps the sessions',
        observe: () => {
          const secureStorePath = `${newFolder()}/sessions.json`
          const first = new library.HandshakeManager({ secureStorePath })
          first.establishRemotePlaintext(7, MS)
          first.stop()
          const second = new library.HandshakeManager({ secureStorePath })
          assert.deepEqual(second.getSessionKey(7), first.getSessionKey(7))
        },
      },
      {
        name: 'request loops: what the device says goes out, the timeout ends them',
        observe: async () => {
          let now = T * 1000
          const manager = new library.HandshakeManager({}, { clock: { wall: () => now, mono: () => now } })
          const sent: Buffer[] = []
          const send = (packet: Uint8Array): void => void sent.push(Buffer.from(packet))
          const silence = async (): Promise<null> => {
            now += 10
            return null
          }
          const start = now
          is.none(await manager.requestIdViaTransport(send, silence, { device_id: 'x' }, 0.1))
          assert.deepEqual(JSON.parse(sent.at(-1)!.toString('utf8', 3)), { device_id: 'x' })
          is.exactly([])(await manager.requestIdPoolViaTransport(send, silence, 4, { device_id: 'y' }, 0.1))
          assert.deepEqual(JSON.parse(sent.at(-1)!.toString('utf8', 5)), { device_id: 'y' })
          is.none(await manager.requestTimeViaTransport(send, silence, 0.1))
          assert.ok(now - start < 2900, 'none waited for its default')
        },
      },
      ...METHODS.map(row),
    ],
  },
]
