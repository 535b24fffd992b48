// Sources, uplinks, receivers, the log and time of the gateway.
import * as v from 'valibot'
import { atStart, choice, flag, int, list, maybe, maybeInt, name, num, optionalText, section, text } from '../fields'

/** the files of board/ */
export const BOARD_NAMES = ['auto', 'rpi-zero-2-w', 'rpi-3', 'rpi-4', 'cm4', 'rpi-5', 'generic'] as const

/** the built-in source types and media, offered by forms and search; plugins may add others */
export const SOURCE_TYPES =
  'cpu, memory, disk, network, uptime, thermal, hwmon, iio, gpio, bme280, sht3x, ads1115, ina219, ds3231, w1, can, line, ' +
  'nmea, modbus_rtu, modbus_tcp, bthome, ibeacon, eddystone, ruuvi'
export const MEDIUM_NAMES = 'UDP, TCP, QUIC, MQTT, UART, RS485, CAN, LoRa, Bluetooth, IWIP, UIP'

const link = {
  name: name('name shown in status; every link has its own'),
  medium: v.pipe(v.string(), v.minLength(1), v.metadata({ help: `medium that carries the packets: ${MEDIUM_NAMES}` })),
  host: optionalText('address of the peer'),
  port: maybe(
    v.union([v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_535)), v.string()]),
    'port of the peer; of a serial bus: name of the port; left out: that of physical_config',
  ),
}

const source = v.looseObject({
  name: name('name of the group of sensors'),
  type: v.pipe(v.string(), v.minLength(1), v.metadata({ help: `driver: ${SOURCE_TYPES}` })),
  match: maybe(v.unknown(), 'which sensors; the form depends on the driver'),
  interval_ms: maybeInt(
    'ms between readings; Modbus, I2C and line: from 2, can and gpio: from 10, w1: from 1000, the others: from 100; left out: default of the type',
    { min: 2, max: 86_400_000 },
  ),
  deadband: v.optional(
    v.nullable(
      v.pipe(
        v.union([v.pipe(v.number(), v.minValue(0)), v.record(v.string(), v.pipe(v.number(), v.minValue(0)))]),
        v.metadata({
          help: 'smallest change to record, of all sensors or by name; null: record every reading',
        }),
      ),
    ),
  ),
})

const uplink = v.looseObject({
  ...link,
  frames: choice(['auto', 'full'], 'auto', 'full: only FULL packets'),
  diff_base: maybe(
    v.picklist(['sticky', 'last']),
    'sticky survives lost packets; left out: last on TCP with acknowledgements',
  ),
  full_every: int(100, 'a key frame after this many packets', { min: 1 }),
  full_interval_seconds: num(60, 'a key frame after this time', { min: 1 }),
  server: maybe(
    v.pipe(v.string(), v.minLength(1)),
    'name of the upstream: uplinks with the same name share session keys; left out: its host',
  ),
  delivery: maybe(v.picklist(['best_effort']), 'best_effort: the peer never answers PING, as the reference'),
  batch_max_items: maybeInt('most packets in one frame or batch; left out: as many as fit', { min: 1, max: 255 }),
  batch_max_bytes: maybeInt('most bytes in one frame or batch; a larger packet is sent alone', {
    min: 16,
    max: 1_048_576,
  }),
  batch_window_ms: int(0, 'how long a packet waits for others to fill a batch', { max: 60_000 }),
  rate_packets_s: num(0, 'most packets per second; 0: no limit; alarms are exempt', { max: 1e6 }),
  rate_bytes_s: num(0, 'most bytes per second; 0: no limit; alarms are exempt', { max: 1e9 }),
})

export const gatewayEntries = {
  gateway: section({
    sources: v.optional(
      v.nullable(
        v.pipe(
          v.array(source),
          v.metadata({
            help: 'sources, such as [{"name": "load", "type": "cpu"}]; null: the sensors of this machine',
          }),
        ),
      ),
      null,
    ),
    uplinks: list(uplink, 'destinations of packets, best first'),
    alarm_statuses: v.optional(
      v.pipe(
        v.array(v.pipe(v.string(), v.minLength(1))),
        v.metadata({ help: 'readings with one of these statuses are sent first', restart: true }),
      ),
      ['ALARM', 'ALERT', 'CRITICAL', 'EMERGENCY'],
    ),
    failover: section({
      after_s: num(5, 'a better uplink must be down this long before the next takes over', { max: 86_400 }),
      back_s: num(60, 'a better uplink must be stable this long before it is active again', { max: 86_400 }),
    }),
    retry_max_s: num(60, 'longest backoff of a link that is down; 5 s if its peer worked recently', {
      min: 1,
      max: 3600,
      restart: true,
    }),
    receivers: list(v.looseObject(link), 'where packets of other nodes are received'),
    log: section({
      max_bytes: int(268_435_456, 'largest log on flash', { min: 1_048_576, restart: true }),
      max_age_s: num(2_592_000, 'largest age of a record', { min: 60, restart: true }),
      commit_interval_ms: int(1000, 'longest time until a record is on flash', {
        min: 1,
        max: 600_000,
        restart: true,
      }),
      ack_commit_ms: int(100, 'longest time until a record is on flash if its sender waits for an acknowledgement', {
        min: 1,
        max: 60_000,
        restart: true,
      }),
      commit_bytes: int(65_536, 'pending bytes that start a commit', { min: 512, max: 67_108_864, restart: true }),
      when_full: choice(
        ['drop_oldest', 'refuse'],
        'drop_oldest',
        'when the log is full: drop the oldest records, or refuse new readings',
        atStart,
      ),
      check_bytes_s: int(16_384, 'highest rate of the daily check of the log for damage, bytes/s; 0: no check', {
        max: 67_108_864,
        restart: true,
      }),
    }),
    flash: section({
      endurance_tb: num(8, 'write endurance (TBW) of the card of the data directory', {
        min: 0.001,
        max: 1e6,
      }),
    }),
    log_level: choice(['debug', 'info', 'warn', 'error'], 'info', 'lines below this are not logged'),
    watchdog: section({
      enabled: flag(true, 'end a frozen or stalled gateway, so that it is restarted'),
      stall_s: num(30, 'longest time without progress', { min: 5, max: 3600 }),
    }),
    safe_mode: section({
      after_crashes: int(5, 'crashes in a row that lead to safe mode; 0: never', { max: 1000, restart: true }),
      healthy_s: num(600, 'a run of this length resets the crash count', { min: 1, max: 86_400, restart: true }),
    }),
    guard: section({
      enabled: flag(true, 'reduce work when memory or event loop lag nears its limit'),
      memory_mb: int(0, 'memory to stay below; 0: 80 % of the control group, else 40 % of the machine, at most 1024', {
        max: 1_048_576,
      }),
      lag_ms: num(500, 'highest event loop lag; 0: no limit', { max: 60_000 }),
    }),
    board: choice(BOARD_NAMES, 'auto', 'board with the pins; auto: detected from the device tree', atStart),
    time: section({
      hold_unsynced_s: num(300, 'wait for a time sync before sending records without a good time'),
    }),
  }),
  receiver: section({
    allow: list(
      v.pipe(v.string(), v.minLength(1)),
      'addresses (or address ranges) whose packets are accepted; empty: all',
    ),
    max_future_s: num(86_400, 'a packet further in the future is kept and marked, but not used as newest value', {
      min: 1,
    }),
    plaintext_after_secure: choice(
      ['same_address', 'any', 'never'],
      'same_address',
      'accept plaintext of a device with a confirmed session: from its address, from any, or never',
    ),
    template_memory_bytes: int(33_554_432, 'memory for templates of other nodes; further ones go to files', {
      min: 1_048_576,
      max: 1_073_741_824,
      restart: true,
    }),
    template_disk_bytes: int(67_108_864, 'disk limit for templates that do not fit into memory', {
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
        path: text(
          '',
          'folder of the sqlite windows, in the data directory unless absolute; empty: sql; :memory: = none',
          atStart,
        ),
        host: optionalText(
          'server: name, address, or folder (postgresql) or file (mysql) of its socket; left out: 127.0.0.1',
          atStart,
        ),
        port: maybeInt('port of the server; left out: 5432 or 3306', { max: 65_535, restart: true }),
        database: optionalText('name of the database; left out: os_node', atStart),
        user: optionalText('user at the server; left out: os_node', atStart),
        password: optionalText('password; OS_DB_PASSWORD and password_file have priority', {
          secret: true,
          restart: true,
        }),
        password_file: optionalText('file with the password, in the data directory unless absolute', atStart),
        tls: maybe(
          v.picklist(['off', 'on', 'unverified']),
          'encryption to the server: off (left out), on, or without a check of its certificate',
          atStart,
        ),
        tls_ca: optionalText("PEM file of the authority of the server's certificate", atStart),
        tls_cert: optionalText("PEM file of this gateway's certificate", atStart),
        tls_key: optionalText('PEM file of its private key', atStart),
        statement_timeout_ms: maybeInt('longest time of a statement at the server; left out: 30000', {
          min: 100,
          max: 3_600_000,
          restart: true,
        }),
        retention_days: maybeInt('days that packets stay at the server; left out: no limit', {
          max: 36_500,
          restart: true,
        }),
      }),
    }),
  }),
}
