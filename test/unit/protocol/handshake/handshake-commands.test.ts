// All 18 command bytes, each arriving at a server, at a client with open requests, at a client without, and at each role: how
// it is classified and what is answered. Server and clients are strict, as Node and gateway are.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fusion } from '../../../../src/index'
import { type HandshakeDeps, HandshakeManager } from '../../../../src/protocol/handshake/manager'
import { IdAllocator } from '../../../../src/protocol/ids/allocator'
import { SecureClient } from '../../../../src/protocol/secure/client'
import { SecureServer } from '../../../../src/protocol/secure/server'
import { deriveSessionKey } from '../../../../src/wire/cipher'
import { COMMAND, type CommandName, secureCommand } from '../../../../src/wire/commands'
import { readHeader, sealFrame } from '../../../../src/wire/frame'
import { ManualClock, memoryIdStore } from '../../../lib/manual'

const AID = 2892
const T = 1_710_000_000_000
const ADDR = '10.0.0.5:4076'
const hex = (bytes: Uint8Array | null): string | null => bytes && Buffer.from(bytes).toString('hex')

// the reference's own frames of AID 2892
const FULL =
  '3f0100000b4c01018e23f14c00323839323b44312e312e4159346a385577417c783936313e4b2e3830303a2d677c412d31343e4b2e4130303a2d436535467cb7bfef'
const HEART = '7f0100000b4c01018e23f14fe8001a87'
const DIFF = 'aa0100000b4c01018e23f153d002076c3632416c4559113bda'

/** The same frame encrypted with the key that FULL names. */
function secured(plain: string): string {
  const frame = Buffer.from(plain, 'hex')
  const { body, end, cmd } = readHeader(frame) as { body: number; end: number; cmd: number }
  frame[0] = secureCommand(cmd)
  sealFrame(frame, 0, body, end, deriveSessionKey(AID, T))
  return frame.toString('hex')
}

/** Type of the envelope and, if specified, the status or reason of its result; the response in hex or its beginning. */
type Expected = readonly [type: string, note: string, response: string | null]
interface Row {
  packet: string
  /** data packets before it */
  before?: string[]
  server: Expected
  /** a client with requests 1 (id), 2 (pool), 3 (PING), 4 (time) open, and FULL sent in plaintext */
  asked: Expected
  /** a client that requested nothing and sent nothing */
  unasked: Expected
  txOnly: Expected
  rxOnly: Expected
}

const ignored = (role: string, cmd: string): Expected => ['IGNORED', `${role}: CTRL ${cmd} ignored`, null]
const noData: Expected = ['IGNORED', 'tx_only: inbound DATA ignored', null]
const data: Expected = ['DATA', '', null]
const stray: Expected = ['IGNORED', 'no open request', null]
const same = (expected: Expected): Omit<Row, 'packet'> => ({
  server: expected,
  asked: expected,
  unasked: expected,
  txOnly: expected,
  rxOnly: expected,
})
const NO_ALLOCATOR: Expected = ['CTRL', 'REJECTED', '0600094e4f5f414c4c4f4341544f52']
const NO_POOL: Expected = ['CTRL', 'REJECTED', '060009504f4f4c5f414c4c4f435f4641494c4544']
const noKey: Expected = ['DATA', `Missing secure key for aid=${AID}`, null]

const TABLE: Record<CommandName, Row> = {
  ID_REQUEST: {
    packet: '0100097b7d',
    server: ['CTRL', 'ASSIGNED', '020009000000010000000065ec8780'],
    asked: NO_ALLOCATOR,
    unasked: NO_ALLOCATOR,
    txOnly: ignored('tx_only', '0x01'),
    rxOnly: ignored('rx_only', '0x01'),
  },
  ID_ASSIGN: {
    packet: '0200010000004d0000000065ec8780',
    server: stray,
    asked: ['CTRL', 'RECEIVED', '050001'],
    unasked: stray,
    txOnly: ['CTRL', 'RECEIVED', '050001'],
    rxOnly: ignored('rx_only', '0x02'),
  },
  ID_POOL_REQ: {
    packet: '03000900037b7d',
    server: ['CTRL', 'POOL_ASSIGNED', '0400090003000000010000000200000003'],
    asked: NO_POOL,
    unasked: NO_POOL,
    txOnly: ignored('tx_only', '0x03'),
    rxOnly: ignored('rx_only', '0x03'),
  },
  ID_POOL_RES: {
    packet: '0400020002000000010000000a',
    server: stray,
    asked: ['CTRL', 'POOL_RECEIVED', '050002'],
    unasked: stray,
    txOnly: ['CTRL', 'POOL_RECEIVED', '050002'],
    rxOnly: ignored('rx_only', '0x04'),
  },
  HANDSHAKE_ACK: { packet: '050007', ...same(['CTRL', 'ACK_RECEIVED', null]) },
  HANDSHAKE_NACK: { packet: '0600074e4f', ...same(['CTRL', 'NACK_RECEIVED', null]) },
  PING: { packet: '090007', ...same(['CTRL', 'PING', '0a0007']), txOnly: ignored('tx_only', '0x09') },
  PONG: { packet: '0a0003', ...same(['CTRL', 'PONG', null]), rxOnly: ignored('rx_only', '0x0A') },
  TIME_REQUEST: {
    packet: '0b0007',
    ...same(['CTRL', 'TIME_REQUEST', '0c00070000000065ec8780']),
    txOnly: ignored('tx_only', '0x0B'),
  },
  TIME_RESPONSE: {
    packet: '0c00040000000065ec8780',
    server: stray,
    asked: ['CTRL', 'TIME_RESPONSE', null],
    unasked: stray,
    txOnly: ['CTRL', 'TIME_RESPONSE', null],
    rxOnly: ignored('rx_only', '0x0C'),
  },
  SECURE_DICT_READY: {
    packet: '0d00000b4c0000018e23f14c00',
    ...same(['CTRL', 'DICT_PENDING', null]),
    asked: ['CTRL', 'DICT_READY', null],
    txOnly: ['CTRL', 'DICT_READY', null],
    rxOnly: ignored('rx_only', '0x0D'),
  },
  SECURE_CHANNEL_ACK: {
    packet: '0e00000b4c',
    ...same(['CTRL', 'SECURE_CHANNEL_ACK', null]),
    rxOnly: ignored('rx_only', '0x0E'),
  },
  DATA_FULL: {
    packet: FULL,
    ...same(data),
    server: ['DATA', '', '0d00000b4c0000018e23f14c00'],
    txOnly: noData,
    rxOnly: ['DATA', '', '0d00000b4c0000000000000000'],
  },
  DATA_DIFF: { packet: DIFF, before: [FULL], ...same(data), txOnly: noData },
  DATA_HEART: { packet: HEART, before: [FULL], ...same(data), txOnly: noData },
  DATA_FULL_SEC: {
    packet: secured(FULL),
    before: [FULL],
    ...same(noKey),
    server: ['DATA', '', '0e00000b4c'],
    txOnly: noData,
  },
  DATA_DIFF_SEC: {
    packet: secured(DIFF),
    before: [FULL],
    ...same(noKey),
    server: ['DATA', '', '0e00000b4c'],
    txOnly: noData,
  },
  // an empty body proves no key, so it does not confirm the channel
  DATA_HEART_SEC: { packet: secured(HEART), before: [FULL], ...same(noKey), server: data, txOnly: noData },
}

const clock = new ManualClock()

function manager(deps: HandshakeDeps): HandshakeManager {
  let inbound: Uint8Array | null = null
  const keys = { outbound: () => null, inbound: () => inbound }
  const fusion = new Fusion(null, { unitDialect: 'attribute', clock, localId: 1, registryDir: null, keys })
  const parser = {
    decompress: (raw: Uint8Array, key?: Uint8Array) => {
      inbound = key ?? null
      return fusion.decompress(raw)
    },
  }
  return new HandshakeManager({}, { clock, parser, ...deps })
}
const allocator = (): IdAllocator => new IdAllocator({}, { store: memoryIdStore(), now: () => T / 1000 })

const PLACES: Record<Exclude<keyof Row, 'packet' | 'before'>, () => HandshakeManager> = {
  server: () => {
    const server = new SecureServer({ clock })
    return manager({ allocator: allocator(), requireOpenRequest: true, strict: { server } })
  },
  asked: () => {
    const client = new SecureClient({ clock })
    const m = manager({ requireOpenRequest: true, strict: { client } })
    for (const request of ['buildIdRequest', 'buildIdPoolRequest', 'buildPing', 'buildTimeRequest'] as const)
      m[request]()
    client.plaintextSent(AID, T)
    return m
  },
  unasked: () => manager({ requireOpenRequest: true, strict: { client: new SecureClient({ clock }) } }),
  txOnly: () => manager({ role: 'tx_only', allocator: allocator() }),
  rxOnly: () => manager({ role: 'rx_only', allocator: allocator() }),
}

for (const [name, row] of Object.entries(TABLE)) {
  test(`${name} is classified and answered as the protocol says, for every role`, () => {
    assert.equal(Number.parseInt(row.packet.slice(0, 2), 16), COMMAND[name as CommandName])
    for (const [place, make] of Object.entries(PLACES)) {
      const m = make()
      for (const packet of row.before ?? []) m.classifyAndDispatch(Buffer.from(packet, 'hex'), ADDR)
      const { type, cmd, result, response } = m.classifyAndDispatch(Buffer.from(row.packet, 'hex'), ADDR)
      const [wantType, wantNote, wantResponse] = row[place as keyof typeof PLACES]
      const note = result['status'] ?? result['reason'] ?? result['error'] ?? ''
      assert.deepEqual([type, note, hex(response)], [wantType, wantNote, wantResponse], `${name} at ${place}`)
      assert.equal(cmd, COMMAND[name as CommandName])
    }
  })
}

test('the table has every command', () => {
  assert.deepEqual(Object.keys(TABLE).sort(), Object.keys(COMMAND).sort())
  assert.equal(Object.keys(TABLE).length, 18)
})

test('a role that does not check the time reports 0 and derives no key', () => {
  const m = PLACES.rxOnly()
  const { result } = m.classifyAndDispatch(Buffer.from(FULL, 'hex'), ADDR)
  assert.equal((result['__packet_meta__'] as { timestamp_raw: number }).timestamp_raw, 0)
  assert.deepEqual([m.hasSecureDict(AID), m.getSessionKey(AID)], [true, null])
})
