// A command context without a gateway, for tests of commands and of the command line.
import type { CommandContext, CommandNode } from '../../../src/commands'
import type { ConfigStore } from '../../../src/config'
import type { GatewayStatus } from '../../../src/gateway/status'
import { OsError } from '../../../src/lib/errors'
import { silentLogger } from '../../../src/lib/logger'
import { Registry } from '../../../src/links/registry'
import { transportView } from '../../../src/links/transport-view'
import type { DecodedPacket } from '../../../src/pipeline/received'

export interface Fake {
  context: CommandContext
  calls: unknown[][]
  printed: string[]
}

/** the part of a status that the text output shows */
export const STATUS = {
  version: '9.9.9',
  uptime_s: 61,
  identity: { device_id: 'gw', assigned_id: 7 },
  time: { quality: 'synced', offset_ms: 3 },
  links: { cloud: { state: 'down', reason: 'no answer', retry_at: 5, delivery: 'acked', rx: 1, tx: 2, errors: 3 } },
  log: { records: 9, first_seq: 1, last_seq: 9, committed_seq: 8, bytes: 100, lost: 0, bytes_written_today: 50 },
  uplinks: { cloud: { cursor: 4, backlog: 5, acked: 4, sent: 2, resent: 0 } },
  storage: { lag_records: 0 },
  dropped: { rows: 1, packets: 0, records: 0 },
} as unknown as GatewayStatus

export async function* rowsFrom(from: number, count = 3): AsyncGenerator<Record<string, unknown>> {
  for (let seq = from; seq < from + count; seq++) yield { boot: 1, seq, t_raw: 1000 + seq, id: 'gw' }
}

const NO_BOARD = {
  board: 'generic',
  title: 'a machine',
  by: 'default' as const,
  model: '',
  boot_config: null,
  pins: [],
  off_header: [],
  buses: [],
  leds: {},
  clashes: [],
}

export function fake(
  config: ConfigStore,
  {
    node = {},
    inGateway = false,
    ...more
  }: Partial<Omit<CommandContext, 'node'>> & { node?: Partial<CommandNode>; inGateway?: boolean } = {},
): Fake {
  const calls: unknown[][] = []
  const printed: string[] = []
  const packet = Buffer.of(0x3f, 1, 0, 0, 0, 7)
  const made: CommandNode = {
    assignedId: 7,
    lastRejected: [],
    lastError: null,
    receive: bytes => (bytes[0] === 0x3f ? { id: 'gw', s: 'ONLINE' } : { error: 'Unknown command' }) as DecodedPacket,
    transmit: (...args) => {
      calls.push(['transmit', ...args])
      return [packet, 7, 'FULL_PACKET']
    },
    dispatch: async (...args) => {
      calls.push(['dispatch', ...args])
      return true
    },
    ensureId: async (...args) => {
      calls.push(['ensureId', ...args])
      return true
    },
    ensureTime: async (...args) => {
      calls.push(['ensureTime', ...args])
      return 1710000000
    },
    ...node,
  }
  const context: CommandContext = {
    version: '9.9.9',
    config,
    logger: silentLogger,
    via: inGateway ? 'gateway' : 'local',
    signal: new AbortController().signal,
    log: {
      summary: async () => STATUS.log,
      verify: async () => ({
        ok: true,
        records: 9,
        first_seq: 1,
        last_seq: 9,
        damaged: 0,
        lost: 0,
        pieces: [],
        gaps: [],
      }),
      export: from => rowsFrom(from),
    },
    node: async () => made,
    transport: () => ({
      view: () => transportView(config, new Registry({}), STATUS.links),
      toggle: async (...args) => {
        calls.push(['toggle', ...args])
        return { name: args[0].toUpperCase(), enabled: args[1] }
      },
      reload: async (...args) => {
        calls.push(['reload', ...args])
        return { name: args[0].toUpperCase(), reloaded: args[0] === 'udp' }
      },
    }),
    plugins: async () => Promise.reject(new OsError('NOT_FOUND', 'no plugins here')),
    hardware: async () => ({ lines: () => [], board: () => NO_BOARD }),
    sources: async () => ({
      list: async () => [
        { name: 'boiler', type: 'modbus_rtu', state: 'down', reason: 'no such port', interval_ms: 1000 },
        { name: 'cellar', type: 'bme280' },
      ],
      test: async (...args) => {
        calls.push(['test', ...args])
        const hot = { sensor_id: 't', raw: '02 7a', status: 'OK', value: 63.4, unit: 'Cel' }
        const cold = {
          sensor_id: 'r',
          raw: '',
          status: 'ERROR',
          value: null,
          unit: 'Cel',
          error: 'no answer from slave 7',
        }
        return { name: args[0], type: 'modbus_rtu', took_ms: 12, readings: args[0] === 'cellar' ? [hot] : [hot, cold] }
      },
    }),
    startGateway: async (...args) => {
      calls.push(['startGateway', ...args])
      return {
        done: Promise.resolve(0),
        info: { url: 'http://127.0.0.1:8765' },
        banner: 'look at http://127.0.0.1:8765',
      }
    },
    display: async () => ({
      available: async () => [],
      read: async names =>
        Object.fromEntries((names ?? []).map(name => [name, { error: 'section not found', code: 'NOT_FOUND' }])),
    }),
    safeMode: async leave => {
      calls.push(['safeMode', leave])
      return leave ? { active: false, crashes: 0 } : { active: true, reason: '5 crashes in a row', crashes: 5 }
    },
    newToken: async () => 'a-new-token',
    print: (value, text) => printed.push(JSON.stringify(value), text),
    ...(inGateway && {
      gateway: {
        status: () => STATUS,
        database: null,
        outputs: { list: () => [], set: async (name, value) => ({ source: '', name, value }) },
        forgetSession: aid => {
          calls.push(['forgetSession', aid])
          return aid === 7
        },
        reload: async () => {
          calls.push(['reload'])
          const kept = { added: [], removed: [], changed: [], kept: ['cloud'] }
          const none = { ...kept, kept: [] }
          const links = { sources: { ...none, added: ['cpu'] }, uplinks: kept, receivers: none }
          return { changed: ['gateway.sources'], links, needs_restart: ['engine_settings.precision'] }
        },
        transmit: async request => {
          calls.push(['transmit', request])
          return {
            packet,
            assigned_id: 7,
            strategy: 'DIFF_PACKET',
            sent: true,
            dispatch_path: 'driver' as const,
            rejected: [],
          }
        },
      },
    }),
    ...more,
  }
  return { context, calls, printed }
}
