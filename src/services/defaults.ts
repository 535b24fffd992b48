// Names and configuration keys of the built-in plugins. Read at every start, without loading the code of any plugin. Cannot
// fail.
import * as v from 'valibot'
import type { Fragment } from '../config'
import { choice, flag, int, maybe, num, text } from '../config/fields'

interface PluginFacts {
  readonly aliases: readonly string[]
  readonly summary: string
  /** settings other than the three common ones */
  readonly entries?: v.ObjectEntries
  readonly autoStart?: boolean
}

const seconds = (standard: number, help: string, max = 3600) => num(standard, help, { max })

/** In display order. */
const PLUGINS = {
  web_user: { aliases: ['web'], summary: 'the HTTP service: page, API, users', autoStart: true },
  tui: {
    aliases: ['terminal'],
    summary: 'the terminal user interface',
    entries: {
      default_section: text('identity', 'section shown first'),
      default_interval: num(2.0, 'seconds between updates', { min: 0.1, max: 3600 }),
    },
  },
  port_forwarder: {
    aliases: ['forwarder'],
    summary: 'forwards matching packets to other media',
    entries: {
      rules_file: text('', 'file of the rules; empty: <data>/port_forwarder_rules.json'),
      max_pending: int(1024, 'packets that may wait for one target; packets beyond are dropped and counted', {
        min: 1,
      }),
    },
  },
  env_guard: {
    aliases: ['environment', 'guard'],
    summary: 'detects missing devices, rights and packages',
    autoStart: true,
    entries: {
      max_history: int(100, 'issues kept', { min: 1, max: 10_000 }),
      check_interval_s: seconds(60, 'interval between checks of the links', 86_400),
    },
  },
  dependency_manager: {
    aliases: ['deps', 'dependency', 'dependencies'],
    summary: 'checks, repairs and installs the parts of os-node',
    entries: {
      registry: text('', 'npm registry that parts are fetched from; empty: the one npm uses'),
      timeout_s: seconds(300, 'how long one installation may take'),
    },
  },
  test_plugin: {
    aliases: ['test', 'plugin_test'],
    summary: 'self-test, stress and audit',
    entries: {
      stress_total: int(200, 'packets of a stress run', { min: 1 }),
      stress_workers: int(8, 'workers of a stress run', { min: 1, max: 1024 }),
      stress_sources: int(6, 'devices of a stress run', { min: 1, max: 65_536 }),
    },
  },
} as const satisfies Record<string, PluginFacts>

type BuiltinName = keyof typeof PLUGINS

export const BUILTIN_NAMES = Object.keys(PLUGINS) as readonly BuiltinName[]

export const builtinFacts = (name: string): PluginFacts | undefined =>
  Object.hasOwn(PLUGINS, name) ? PLUGINS[name as BuiltinName] : undefined

/** Settings common to all plugins. */
const common = (autoStart: boolean): v.ObjectEntries => ({
  enabled: flag(true, 'false: this plugin is never loaded'),
  auto_start: flag(autoStart, 'load and start it with the gateway'),
  mode: choice(['runtime', 'manual'], 'runtime', 'runtime: auto_start decides; manual: by command only'),
})

/** The settings of plugins, as parts of the configuration schema. */
export function pluginFragments(): Fragment[] {
  return [
    ...BUILTIN_NAMES.flatMap(name => {
      const { entries = {}, autoStart = false }: PluginFacts = PLUGINS[name]
      return Object.entries({ ...common(autoStart), ...entries }).map(([key, schema]) => ({
        at: `RESOURCES.service_plugins.${name}.${key}`,
        schema: schema as v.GenericSchema,
      }))
    }),
    {
      at: 'plugins',
      schema: v.optional(
        v.looseObject({
          enabled: flag(false, 'load third-party plugins: they run with all rights of this program', {
            restart: true,
          }),
          dir: text('', 'folder of these plugins; empty: <data>/plugins', { restart: true }),
          start_timeout_s: num(10, 'how long the start of a plugin may take', { min: 0.1, max: 600, restart: true }),
          allow: maybe(v.array(v.string()), 'names of those that are loaded; left out: all of the folder', {
            restart: true,
          }),
        }),
        {},
      ),
    },
  ]
}

const valuesOf = (entries: v.ObjectEntries): Record<string, unknown> =>
  v.parse(v.object(entries), {}) as Record<string, unknown>

/** Defaults of a plugin; `own`: those of its definition. */
export function pluginDefaults(name: string, own: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const facts = builtinFacts(name)
  // if third-party plugins are allowed, those in the folder run
  const { enabled, auto_start, mode } = valuesOf(common(facts ? (facts.autoStart ?? false) : true))
  const web = name === 'web_user' ? { host: '127.0.0.1', port: 8765 } : {}
  return { enabled, auto_start, mode, ...web, ...(facts?.entries ? valuesOf(facts.entries) : {}), ...own }
}
