// How readings become packets, and how sessions and time behave (DESIGN D2, D3, D6, D12, D16).
import { choice, flag, int, num, optionalText, section } from '../fields'

export const engineEntries = {
  engine_settings: section({
    precision: int(4, 'digits after the point that the wire keeps', { max: 10, restart: true }),
    unit_dialect: choice(['ucum', 'attribute'], 'ucum', 'how units are named on the wire', { restart: true }),
    network_retry: section({
      enabled: flag(true, 'send again when a send failed'),
      max_retries: int(2, 'tries after the first', { max: 100 }),
      interval_seconds: num(1.0, 'pause between tries', { max: 3600 }),
    }),
    tx_batch_enabled: flag(false, 'collect packets before sending (native core)', { restart: true }),
    tx_batch_window_ms: num(5, 'longest wait of a packet in the batch', { max: 60_000, restart: true }),
    tx_batch_max_items: int(256, 'packets in a batch at most', { min: 1, max: 65_536, restart: true }),
    zero_copy_transport: flag(true, 'hand packets to the medium without copying them', { restart: true }),
    diff_base: choice(
      ['last', 'sticky'],
      'last',
      'what a DIFF refers to: the last packet, or the last acknowledged one',
      {
        restart: true,
      },
    ),
    full_every: int(100, 'a key frame after this many packets (diff_base sticky)', { min: 1, restart: true }),
    full_interval_seconds: num(60, 'a key frame after this time (diff_base sticky)', { min: 1, restart: true }),
    core_backend: choice(['pycore', 'rscore'], 'pycore', 'pycore is the pure core, rscore the native one', {
      restart: true,
    }),
  }),
  payload_switches: section({
    SensorId: flag(true, 'unit_dialect attribute: whether sensors keep their ids in what a node transmits', {
      restart: true,
    }),
  }),
  security_settings: section({
    secure_session_expire_seconds: num(86400, 'life of a secure session without traffic', { min: 1, restart: true }),
    secure_session_store: optionalText('file of the sessions of receivers; else <data>/secure_sessions.json', {
      restart: true,
    }),
    time_sync_threshold: num(1_000_000, 'a UNIX time below this counts as unsynchronised'),
    max_time_step_seconds: num(300, 'largest step of the node time per hour after the first sync'),
    require_secure: flag(false, 'never send or accept plaintext', { restart: true }),
    id_lease: section({
      offline_hold_days: num(30, 'days an offline device keeps its id', { max: 36_500 }),
      base_lease_seconds: num(2_592_000, 'lease of an id', { min: 1 }),
      adaptive_enabled: flag(true, 'shorten leases when many devices come and go'),
      metrics_flush_seconds: num(10, 'pause between two writes of the lease metrics', { min: 1 }),
    }),
  }),
}
