// The vectors' operations on the handshake manager: `handshake` runs its steps on one manager, `check_timestamp` a list of
// (AID, timestamp). The manager is the component, without the strict behaviour of Node and gateway.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { hex, type Lib, type Ops, type Request } from './common'

const NOW = 1710000000

/** Converts bytes to hex, anywhere in a session or an envelope. */
function shown(value: unknown): unknown {
  if (value instanceof Uint8Array) return hex(value)
  if (Array.isArray(value)) return value.map(shown)
  if (typeof value !== 'object' || value === null || value instanceof Promise) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shown(item)]))
}

function runSteps(lib: Lib, request: Request, dir: string): unknown[] {
  let now: number = request.now ?? NOW
  const clock = { wall: () => now * 1000, mono: () => now * 1000 }
  const path = join(dir, 'secure_sessions.json')
  const parser = request.parser ? new lib.Fusion(null, { unitDialect: 'attribute', clock, localId: 0xffffffff }) : null
  const manager = new lib.HandshakeManager(
    { targetSyncCount: request.target_sync_count, expireSeconds: request.expire_seconds, secureStorePath: path },
    {
      clock,
      role: request.role,
      parser: parser && { decompress: raw => parser.decompress(raw) },
      allocator: request.allocator ? new lib.IdAllocator({ baseDir: dir }, { now: () => now }) : null,
    },
  )
  const steps: Record<string, (args: Request, step: Request) => unknown> = {
    dispatch: (_, { packet, addr }) => manager.classifyAndDispatch(Buffer.from(packet, 'hex'), addr ?? null),
    build_id_request: ({ device_meta }) => manager.buildIdRequest(device_meta),
    build_id_pool_request: ({ count, meta }) => manager.buildIdPoolRequest(count, meta),
    build_ping: () => manager.buildPing(),
    build_time_request: () => manager.buildTimeRequest(),
    _build_ack: ({ seq }) => manager.buildAck(seq),
    _build_nack: ({ seq, reason }) => manager.buildNack(seq, reason),
    _build_pong: ({ seq }) => manager.buildPong(seq),
    _build_time_response: ({ seq, server_time }) => manager.buildTimeResponse(seq, server_time),
    _build_id_assign: a => manager.buildIdAssign(a.seq, a.assigned_id, a.server_time),
    _build_id_pool_response: ({ seq, pool }) => manager.buildIdPoolResponse(seq, pool),
    _build_secure_dict_ready: a => manager.buildSecureDictReady(a.assigned_id, a.timestamp_raw),
    _build_secure_channel_ack: ({ assigned_id }) => manager.buildSecureChannelAck(assigned_id),
    last_server_time: () => manager.lastServerTime,
    session: (_, { aid }) => manager.sessions.session(aid),
    key: (_, { aid }) => manager.getSessionKey(aid),
    get_strategy: ({ aid, has_template }) => manager.getStrategy(aid, has_template),
    commit_success: ({ aid }) => manager.commitSuccess(aid),
    note_local_plaintext_sent: a => manager.noteLocalPlaintextSent(a.aid, a.timestamp_raw, a.addr),
    establish_remote_plaintext: a => manager.establishRemotePlaintext(a.aid, a.timestamp_raw, a.addr),
    confirm_secure_dict: a => manager.confirmSecureDict(a.aid, a.timestamp_raw, a.addr),
    mark_secure_channel: ({ aid, addr }) => {
      manager.markSecureChannel(aid, addr)
      return manager.sessions.session(aid)
    },
    has_secure_dict: ({ aid }) => manager.hasSecureDict(aid),
    should_encrypt_outbound: ({ aid }) => manager.shouldEncryptOutbound(aid),
    store: () => {
      manager.sessions.save(true)
      return JSON.parse(readFileSync(path, 'utf8'))
    },
    cleanup: () => {
      manager.sessions.expire()
      return manager.sessions.aids().map(String)
    },
  }
  return request.steps.map((step: Request) => {
    now = step.now ?? now
    const run = steps[step.do]
    if (!run) throw new Error(`unsupported step ${step.do}`)
    return shown(run(step.args ?? {}, step)) ?? null
  })
}

export const handshakeOps: Ops = {
  handshake: (lib, request, dir) => ({ results: runSteps(lib, request, dir) }),
  check_timestamp: (lib, { seq }) => {
    const manager = new lib.HandshakeManager()
    return { results: seq.map(([aid, ts]: [number | string, number | null]) => manager.checkTimestamp(aid, ts)) }
  },
}
