// Answers one request of the vectors with the library: unit dialect `attribute`, diff base `last`, the clock at 1710000000
// unless `now` is set, a new temporary directory per request. An unknown operation is answered {error: 'unsupported op'}; an
// error of the library becomes {error: message}.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { allocatorOps } from './allocator'
import { type Answer, bytes, clockAt, hex, type Lib, number, type Ops, type Request, reported } from './common'
import { handshakeOps } from './handshake'
import { standardizeOps } from './standardize'

/** JSON has no infinities; the vectors represent them as text */
const plain = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (_, v) =>
      typeof v === 'number' && !Number.isFinite(v) ? String(v).replace('Infinity', 'inf').replace('NaN', 'nan') : v,
    ),
  )

const keysOf = (request: Request) => {
  const find = (aid: number): Uint8Array | null => (request.keys?.[aid] ? bytes(request.keys[aid]) : null)
  return { outbound: find, inbound: find }
}

function fuse(lib: Lib, request: Request, dir: string): Answer {
  const fusion = new lib.Fusion(null, {
    unitDialect: 'attribute',
    clock: clockAt(request.now),
    localId: request.local_id,
    registryDir: join(dir, 'data/device_registry'),
    keys: keysOf(request),
  })
  const packets = request.steps.map((step: Request) => {
    try {
      return hex(fusion.runEngine(step.input_hex === undefined ? step.input : bytes(step.input_hex), step.strategy))
    } catch (thrown) {
      return reported(thrown)
    }
  })
  if (!request.want_registry) return { packets }
  fusion.stop()
  const path = fusion.registry!.path(request.local_id)
  return { packets, registry: JSON.parse(readFileSync(path, 'utf8')), registry_path: relative(dir, path) }
}

/** The operations that need no complete node. */
export const OPS: Ops = {
  ...standardizeOps,
  crc8: (lib, { data, poly = 7, init = 0 }) => ({
    value: poly === 7 ? lib.crc8(bytes(data), 0, data.length / 2, init) : lib.crcBits(8, poly, init, bytes(data)),
  }),
  crc16: (lib, { data, poly = 0x1021, init = 0xffff }) => ({
    value:
      poly === 0x1021 ? lib.crc16(bytes(data), 0, data.length / 2, init) : lib.crcBits(16, poly, init, bytes(data)),
  }),
  b62_encode: (lib, { value, value_str, use_precision, precision }) => ({
    text: lib.encodeBase62(value_str ?? number(value), use_precision, precision),
  }),
  b62_decode: (lib, { text, use_precision, precision }) => ({
    value: lib.decodeBase62(text, use_precision, precision),
  }),
  derive_session_key: (lib, { aid, ts_str }) => ({ key: hex(lib.deriveSessionKey(aid, BigInt(ts_str))) }),
  xor_payload: (lib, { payload, key, offset }) => ({ out: hex(lib.xorPayload(bytes(payload), bytes(key), offset)) }),
  unit_token: (lib, { units, precision }) => {
    const engine = new lib.Engine(null, { unitDialect: 'attribute', precision })
    return {
      tokens: units.map((unit: string) => {
        try {
          return engine.encodeUnitToken(unit)
        } catch (thrown) {
          return reported(thrown)
        }
      }),
    }
  },
  compress: (lib, { fact, precision, use_ms, now }) => {
    const engine = new lib.Engine(null, { unitDialect: 'attribute', precision, clock: clockAt(now) })
    const fields = Object.fromEntries(Object.entries(fact).map(([k, v]) => [k, number(v)]))
    return { text: engine.compress(fields, use_ms) }
  },
  decompress_text: (lib, { text, precision }) => ({
    fact: new lib.Engine(null, { unitDialect: 'attribute', precision }).decompress(text),
  }),
  fuse,
  receive: (lib, request) => {
    const fusion = new lib.Fusion(null, {
      unitDialect: 'attribute',
      clock: clockAt(request.now),
      keys: keysOf(request),
      localId: 0xffffffff,
    })
    return { decoded: request.packets.map((packet: string) => fusion.decompress(bytes(packet))) }
  },
  medium_frame: (lib, { medium, payload }) => {
    const frame = lib.frameSerial(bytes(payload), medium)
    const unframed = lib.unframeSerial(frame, medium)
    return { frame: hex(frame), unframed: unframed && hex(unframed) }
  },
  ...handshakeOps,
  ...allocatorOps,
}

/** One request → one answer; never throws. */
export function answer<L extends Lib>(lib: L, { op, ...request }: Request, ops: Ops<L> = OPS): unknown {
  const run = ops[op]
  if (!run) return { error: 'unsupported op' }
  const dir = mkdtempSync(join(tmpdir(), 'os-node-vector-'))
  try {
    return plain(run(lib, request, dir))
  } catch (thrown) {
    return reported(thrown)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}
