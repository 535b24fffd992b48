// Every configuration key of the specification: changed, saved, refused out of range, and its effect.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configTables } from './config/tables'
import { run } from './rows'

const NETWORK = ['udp', 'tcp', 'quic', 'iwip', 'uip']
const PHYSICAL = ['uart', 'rs485', 'can', 'lora', 'bluetooth']

/** Specification, "Configuration keys used by the interface" and "Transporter media"; a star: any key below. */
const KEYS = [
  'Node_Setting.default_medium',
  ...NETWORK.map(medium => `RESOURCES.transport_status.${medium}`),
  ...PHYSICAL.map(medium => `RESOURCES.physical_status.${medium}`),
  ...NETWORK.flatMap(medium => ['host', 'port'].map(option => `RESOURCES.transport_config.${medium}.${option}`)),
  ...PHYSICAL.map(medium => `RESOURCES.physical_config.${medium}.*`),
  ...['uart', 'rs485'].flatMap(medium => ['port', 'baudrate'].map(at => `RESOURCES.physical_config.${medium}.${at}`)),
  'RESOURCES.application_config.mqtt.*',
  'RESOURCES.service_plugins.web_user.host',
  'RESOURCES.service_plugins.web_user.port',
  'engine_settings.precision',
  'engine_settings.network_retry.enabled',
  'engine_settings.network_retry.max_retries',
  'engine_settings.network_retry.interval_seconds',
  'engine_settings.tx_batch_enabled',
  'engine_settings.tx_batch_window_ms',
  'engine_settings.tx_batch_max_items',
  'engine_settings.zero_copy_transport',
  'security_settings.secure_session_expire_seconds',
  'security_settings.id_lease.offline_hold_days',
  'security_settings.id_lease.base_lease_seconds',
  'security_settings.id_lease.adaptive_enabled',
  'security_settings.id_lease.metrics_flush_seconds',
  'storage.sql.enabled',
  'storage.sql.dialect',
  'storage.sql.driver.path',
  'web_user.auth_enabled',
  'web_user.read_only',
  'web_user.writable_config_prefixes',
]

test('every key of the specification has a row', () => {
  const names = configTables.flatMap(({ rows }) => rows.map(({ name }) => name))
  const has = (key: string): boolean => {
    const pattern = new RegExp(`^${key.replaceAll('.', '\\.').replaceAll('*', '[a-z0-9]+')}$`)
    return names.some(name => pattern.test(name))
  }
  assert.deepEqual(
    KEYS.filter(key => !has(key)),
    [],
  )
})

run(configTables)
