// Sources, uplinks, receivers, the log and time of the gateway (DESIGN D4, D6, D7, D18).
import * as v from 'valibot'
import { anything, choice, flag, int, list, name, num, optionalText, section, text } from '../fields'

const atStart = { restart: true }
const link = {
  name: name('name shown in status; every link has its own'),
  medium: v.pipe(v.string(), v.minLength(1), v.metadata({ help: 'medium that carries the packets', restart: true })),
  host: optionalText('address of the peer', atStart),
  port: v.optional(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(0),
      v.maxValue(65535),
      v.metadata({ help: 'port of the peer', restart: true }),
    ),
  ),
}

const source = v.looseObject({
  name: name('name of the group of sensors'),
  type: v.pipe(v.string(), v.minLength(1), v.metadata({ help: 'driver, for example host', restart: true })),
  match: anything('which sensors of the driver; the driver says what it understands', atStart),
  interval_ms: v.optional(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(10),
      v.maxValue(86_400_000),
      v.metadata({ help: 'pause between two readings; left out: what suits the type', restart: true }),
    ),
  ),
  deadband: v.optional(
    v.nullable(v.union([v.pipe(v.number(), v.minValue(0)), v.record(v.string(), v.pipe(v.number(), v.minValue(0)))])),
  ),
})

const uplink = v.looseObject({
  ...link,
  frames: choice(['auto', 'full'], 'auto', 'full: every packet stands alone', atStart),
  diff_base: choice(['sticky', 'last'], 'sticky', 'sticky survives lost packets', atStart),
  full_every: int(100, 'a key frame after this many packets', { min: 1, restart: true }),
  full_interval_seconds: num(60, 'a key frame after this time', { min: 1, restart: true }),
  delivery: v.optional(
    v.pipe(v.picklist(['best_effort']), v.metadata({ help: 'peers that never answer PING', restart: true })),
  ),
})

export const gatewayEntries = {
  gateway: section({
    sources: v.optional(
      v.nullable(
        v.pipe(v.array(source), v.metadata({ help: 'what is read; null: the sensors of this machine', restart: true })),
      ),
      null,
    ),
    uplinks: list(uplink, 'where packets go, best first', atStart),
    receivers: list(v.looseObject(link), 'where packets of other nodes are received', atStart),
    log: section({
      max_bytes: int(268_435_456, 'size of the log on flash at most', { min: 1_048_576, restart: true }),
      max_age_s: num(2_592_000, 'age of the oldest record at most', { min: 60, restart: true }),
      commit_interval_ms: int(1000, 'a record is on flash after this time at the latest', {
        min: 1,
        max: 600_000,
        restart: true,
      }),
      ack_commit_ms: int(100, 'the same for a record that somebody waits for', { min: 1, max: 60_000, restart: true }),
      commit_bytes: int(65_536, 'pending bytes that start a commit', { min: 512, max: 67_108_864, restart: true }),
      when_full: choice(['drop_oldest', 'refuse'], 'drop_oldest', 'what gives way when the log is full', atStart),
    }),
    time: section({
      hold_unsynced_s: num(300, 'wait for a time sync before sending records without a good time', { restart: true }),
    }),
  }),
  receiver: section({
    allow: list(
      v.pipe(v.string(), v.minLength(1)),
      'addresses (or address ranges) packets are taken from; empty: from everywhere',
      atStart,
    ),
    template_memory_bytes: int(
      33_554_432,
      'memory for the templates of other nodes; what finds no room goes to files',
      {
        min: 1_048_576,
        max: 1_073_741_824,
        restart: true,
      },
    ),
    template_disk_bytes: int(67_108_864, 'files for the templates that find no room in memory', {
      min: 1_048_576,
      max: 4_294_967_296,
      restart: true,
    }),
  }),
}

export const storageEntries = {
  storage: section({
    sql: section({
      enabled: flag(true, 'keep the SQL view', atStart),
      dialect: choice(['sqlite', 'mysql', 'postgresql'], 'sqlite', 'which database', atStart),
      driver: section({
        path: text('', 'folder of the sqlite windows; empty: <data>/sql', atStart),
        password: optionalText('password of mysql or postgresql', { secret: true, restart: true }),
      }),
    }),
  }),
}
