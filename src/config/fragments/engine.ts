// Settings of packets, sessions and time.
import { atStart, choice, flag, int, num, optionalText, section } from '../fields'

export const engineEntries = {
  engine_settings: section({
    precision: int(4, 'digits after the decimal point on the wire', { max: 10, restart: true }),
    unit_dialect: choice(['ucum', 'attribute'], 'ucum', 'how units are named on the wire', atStart),
    network_retry: section({
      enabled: flag(true, 'send again when a send failed'),
      max_retries: int(2, 'tries after the first', { max: 100 }),
      interval_seconds: num(1.0, 'delay between tries', { max: 3600 }),
    }),
    tx_batch_enabled: flag(false, 'a node of the library makes packets in batches (core_backend rscore)', atStart),
    tx_batch_window_ms: num(5, 'longest wait of a packet for its batch', {
      max: 60_000,
      restart: true,
    }),
    tx_batch_max_items: int(256, 'most packets in a batch', {
      min: 1,
      max: 65_536,
      restart: true,
    }),
    zero_copy_transport: flag(true, 'pass packets to the medium without copying them'),
    diff_base: choice(
      ['last', 'sticky'],
      'last',
      'base of a DIFF: the last packet, or the last acknowledged one',
      atStart,
    ),
    full_every: int(100, 'a key frame after this many packets (diff_base sticky)', { min: 1, restart: true }),
    full_interval_seconds: num(60, 'a key frame after this time (diff_base sticky)', { min: 1, restart: true }),
    core_backend: choice(
      ['pycore', 'rscore'],
      'pycore',
      'core of the library: pycore is plain JavaScript, rscore makes batches in WebAssembly; a gateway measures both and uses the faster',
      atStart,
    ),
  }),
  payload_switches: section({
    SensorId: flag(true, 'packets of a node contain the sensor ids (unit_dialect attribute)', atStart),
  }),
  security_settings: section({
    secure_session_expire_seconds: num(86400, 'a secure session without traffic ends after this long', {
      min: 1,
      restart: true,
    }),
    secure_session_store: optionalText('file of the sessions of receivers; else <data>/secure_sessions.json', atStart),
    time_sync_threshold: num(1_000_000, 'a UNIX time below this counts as unsynchronised'),
    max_time_step_seconds: num(300, 'largest step of the node time per hour after the first sync'),
    require_secure: flag(false, 'never send or accept plaintext', atStart),
    rekey_after_s: num(600, 'silence of a device after which another address may replace its session key', {
      min: 1,
      max: 31_536_000,
      restart: true,
    }),
    id_lease: section({
      store: choice(
        ['file', 'postgresql'],
        'file',
        'where ids are kept; postgresql: in the database of storage.sql, for several receivers',
        atStart,
      ),
      offline_hold_days: num(30, 'days an offline device keeps its id, if base_lease_seconds is 0', {
        max: 36_500,
        restart: true,
      }),
      base_lease_seconds: num(2_592_000, 'lease of an id; 0: offline_hold_days applies', atStart),
      min_lease_seconds: num(0, 'the shortest lease while many devices arrive', atStart),
      rate_window_seconds: num(3600, 'new devices are counted over this time', { min: 300, restart: true }),
      high_rate_threshold_per_hour: num(60, 'more new devices than this shorten the lease', { min: 1, restart: true }),
      ultra_rate_threshold_per_hour: num(180, 'this many new devices are a flood', { min: 1, restart: true }),
      ultra_rate_sustain_seconds: num(600, 'a flood that lasts this long ends the leases of offline devices', {
        min: 60,
        restart: true,
      }),
      high_rate_min_factor: num(0.2, 'no lease is shortened to less than this share', { max: 1, restart: true }),
      adaptive_enabled: flag(true, 'shorten leases when many devices come and go', atStart),
      ultra_force_release: flag(true, 'let a flood end the leases of devices that are offline already', atStart),
      metrics_emit_interval_seconds: num(5, 'interval between reports of the lease metrics', {
        min: 1,
        restart: true,
      }),
      metrics_flush_seconds: num(10, 'interval between writes of <data>/id_lease_metrics.json', { min: 1 }),
    }),
    id_max_bytes: int(268_435_456, 'memory limit of ids in use, 400 bytes each; new devices beyond it are refused', {
      min: 1_048_576,
      restart: true,
    }),
    id_pool: section({
      size: int(32, 'ids requested from the upstream for nodes of this gateway; 0: none', { max: 256, restart: true }),
      use_within_days: num(15, 'unused ids are dropped after this time; the upstream keeps them for 30 days', {
        min: 0.001,
        max: 25,
        restart: true,
      }),
    }),
  }),
}
