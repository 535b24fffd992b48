// Settings of the built-in plugins: each accepts and keeps valid values, and refuses others by name.
import { test } from 'node:test'
import { checkRow, type Row } from './config-values'

const ROWS: readonly Row[] = [
  ['RESOURCES.service_plugins.web_user.enabled', false, 'no'],
  ['RESOURCES.service_plugins.web_user.auto_start', false, 0],
  ['RESOURCES.service_plugins.web_user.mode', 'manual', 'never'],
  ['RESOURCES.service_plugins.web_user.host', '0.0.0.0', 7],
  ['RESOURCES.service_plugins.tui.enabled', false, 'no'],
  ['RESOURCES.service_plugins.tui.auto_start', true, 1],
  ['RESOURCES.service_plugins.tui.mode', 'manual', 'never'],
  ['RESOURCES.service_plugins.tui.default_section', 'config', 1],
  ['RESOURCES.service_plugins.tui.default_interval', 0.1, 0],
  ['RESOURCES.service_plugins.port_forwarder.enabled', false, 'no'],
  ['RESOURCES.service_plugins.port_forwarder.auto_start', true, 1],
  ['RESOURCES.service_plugins.port_forwarder.mode', 'manual', 'never'],
  ['RESOURCES.service_plugins.port_forwarder.rules_file', 'rules.json', 1],
  ['RESOURCES.service_plugins.port_forwarder.max_pending', 1, 0],
  ['RESOURCES.service_plugins.env_guard.enabled', false, 'no'],
  ['RESOURCES.service_plugins.env_guard.auto_start', false, 0],
  ['RESOURCES.service_plugins.env_guard.mode', 'manual', 'never'],
  ['RESOURCES.service_plugins.env_guard.max_history', 10_000, 10_001],
  ['RESOURCES.service_plugins.env_guard.check_interval_s', 86_400, 86_401],
  ['RESOURCES.service_plugins.dependency_manager.enabled', false, 'no'],
  ['RESOURCES.service_plugins.dependency_manager.auto_start', true, 1],
  ['RESOURCES.service_plugins.dependency_manager.mode', 'manual', 'never'],
  ['RESOURCES.service_plugins.dependency_manager.registry', 'https://registry.example/', 1],
  ['RESOURCES.service_plugins.test_plugin.enabled', false, 'no'],
  ['RESOURCES.service_plugins.test_plugin.auto_start', true, 'no'],
  ['RESOURCES.service_plugins.test_plugin.mode', 'manual', 'never'],
  ['RESOURCES.service_plugins.test_plugin.stress_total', 1, 0],
  ['RESOURCES.service_plugins.test_plugin.stress_workers', 1024, 1025],
  ['RESOURCES.service_plugins.test_plugin.stress_sources', 65_536, 65_537],
]

test('every setting of a plugin accepts valid values and refuses others by name', () => {
  for (const row of ROWS) checkRow(row)
})
