// Plugins in a folder of its own, with a clock that the test moves.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { ConfigStore } from '../../../src/config'
import { type PluginDefinition, Plugins, type PluginTable, ServiceManager } from '../../../src/services'
import { ManualClock, ManualTimers } from '../../lib/manual'
import { configIn, type FakeGateway, FakeNode, logger, tempDir } from './fake'

interface Made {
  plugins: Plugins
  timers: ManualTimers
  dir: string
  config: ConfigStore
}

export function make(
  t: TestContext,
  {
    config: content = {},
    builtins = {},
    foreign = {},
    safeMode,
    gateway,
    frozen,
    dir = tempDir(t),
  }: {
    config?: Record<string, unknown>
    builtins?: PluginTable
    /** file name → text */
    foreign?: Record<string, string>
    safeMode?: string
    gateway?: FakeGateway
    frozen?: readonly string[]
    dir?: string
  },
): Made {
  const config = configIn(dir, content)
  const folder = join(config.dataDir, 'plugins')
  mkdirSync(folder, { recursive: true })
  for (const [name, text] of Object.entries(foreign)) writeFileSync(join(folder, name), text)
  const timers = new ManualTimers(new ManualClock())
  const manager = new ServiceManager(config, 'runtime', { timers, limitMs: 1000, logger })
  const node = Object.assign(new FakeNode(), { store: config, serviceManager: manager })
  const plugins = new Plugins({
    manager,
    node,
    builtins,
    version: '1',
    logger,
    ...(gateway && { gateway }),
    ...(safeMode !== undefined && { safeMode: () => safeMode }),
    ...(frozen && { frozen }),
  })
  return { plugins, timers, dir, config }
}

export const plain = (name: string, service: object = {}): PluginDefinition => ({ name, create: () => service })
export const table = (...definitions: PluginDefinition[]): PluginTable =>
  Object.fromEntries(definitions.map(definition => [definition.name, async () => definition]))
export const row = (plugins: Plugins, name: string) => plugins.list().find(item => item.name === name)!

export const GOOD = `module.exports = { name: 'good', summary: 'fine', defaults: { colour: 'red' },
  create: host => ({ status: () => ({ colour: host.settings().colour }) }) }`
