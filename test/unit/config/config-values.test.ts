// Keys of the engine, the gateway, security, storage and the HTTP service: each takes what it should, is kept, and
// refuses what is out of its range by its name.
import { test } from 'node:test'
import { checkRow, type Row } from './config-values'

const ROWS: readonly Row[] = [
  ['device_id', 'Pumpenhaus_2 Süd', 'pump.house'],
  ['engine_settings.tx_batch_enabled', true, 'yes'],
  ['engine_settings.tx_batch_window_ms', 60_000, 60_001],
  ['engine_settings.tx_batch_max_items', 65_536, 65_537],
  ['engine_settings.diff_base', 'sticky', 'first'],
  ['engine_settings.full_interval_seconds', 1, 0],
  ['gateway.alarm_statuses', ['FIRE'], ['']],
  ['gateway.log.max_bytes', 1_048_576, 1_048_575],
  ['gateway.log.commit_bytes', 512, 511],
  ['gateway.log.when_full', 'refuse', 'stop'],
  ['gateway.retry_max_s', 3600, 0.5],
  ['gateway.watchdog.enabled', false, 0],
  ['gateway.safe_mode.healthy_s', 86_400, 0.5],
  ['gateway.guard.enabled', false, 'no'],
  ['gateway.guard.memory_mb', 128, -1],
  ['gateway.guard.lag_ms', 60_000, 60_001],
  ['receiver.template_memory_bytes', 1_048_576, 1_048_575],
  ['receiver.template_disk_bytes', 4_294_967_296, 4_294_967_297],
  ['hardware_id', 'mac:00112233aabbccdd', 7],
  ['security_settings.secure_session_store', 'sessions.json', 7],
  ['security_settings.time_sync_threshold', 0, -1],
  ['security_settings.max_time_step_seconds', 0, -1],
  ['security_settings.id_lease.high_rate_threshold_per_hour', 1, 0],
  ['security_settings.id_lease.ultra_rate_threshold_per_hour', 1, 0],
  ['security_settings.id_lease.ultra_force_release', false, 1],
  ['security_settings.id_lease.metrics_emit_interval_seconds', 1, 0],
  ['security_settings.id_max_bytes', 1_048_576, 1_048_575],
  ['storage.sql.driver.path', 'sql', true],
  ['web_user.management_enabled', false, 0],
  ['web_user.allowed_hosts', ['gateway.lan'], 'gateway.lan'],
  ['web_user.session_idle_seconds', 60, 59],
  ['web_user.session_max_seconds', 2_592_000, 2_592_001],
  ['web_user.ui.ui_layout', 'list', 1],
  ['web_user.ui.ui_compact', true, 'true'],
  ['web_user.ui.expose_sections', ['identity'], [1]],
  ['plugins.enabled', true, 1],
  ['plugins.dir', 'plugins', null],
  ['plugins.start_timeout_s', 0.1, 0],
  ['plugins.allow', ['mine'], [1]],
]

test('every key takes what it should and refuses the rest by its name', () => {
  for (const row of ROWS) checkRow(row)
})
