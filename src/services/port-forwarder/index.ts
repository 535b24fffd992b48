// The plugin port_forwarder: forwards packets that match rules to other media. Rules are stored in a file of the data
// directory and apply immediately; see rules.ts and forwarder.ts.
import { join, resolve } from 'node:path'
import { OsError } from '../../lib/errors'
import { mediumInfo } from '../../links/registry'
import type { CliHandler, OptionSpec, OptionValues, PluginDefinition, PluginHost, Section, Service } from '../contract'
import { Forwarder } from './forwarder'
import { RuleStore } from './rule-store'
import { commandBytes, parseTarget, type Rule, targetText } from './rules'

const NAME: OptionSpec = { type: 'string', value: 'NAME', required: true, help: 'name of the rule' }
const MATCH: Record<'medium' | 'source' | 'command' | 'device', OptionSpec> = {
  medium: { type: 'list', value: 'MEDIUM', help: 'incoming medium, case-insensitive; repeatable' },
  source: {
    type: 'list',
    value: 'ADDRESS',
    help: 'address or range such as 10.0.0.0/8, as the medium writes it',
  },
  command: {
    type: 'list',
    value: 'COMMAND',
    help: 'data, control, full, diff, heart, DATA_FULL, 0x3f …; else all data',
  },
  device: { type: 'list', value: 'DEVICE', help: 'id on the wire, or device name' },
}
const ADD: Record<string, OptionSpec> = {
  name: { type: 'string', value: 'NAME', help: 'name of the rule; else rule-N' },
  ...MATCH,
  to: { type: 'list', value: 'TARGET', help: 'target: tcp://10.0.0.2:8888, mqtt; repeatable' },
  'to-protocol': { type: 'string', value: 'MEDIUM', help: 'medium of the target (with --to-host, --to-port)' },
  'to-host': { type: 'string', value: 'HOST', help: 'its address' },
  'to-port': { type: 'integer', value: 'N', min: 1, max: 65_535, help: 'its port' },
  priority: { type: 'integer', value: 'N', default: 0, min: -1000, max: 1000, help: 'higher is evaluated first' },
  set: {
    type: 'string',
    value: 'NAME',
    default: 'default',
    help: 'rule set, of each of which the first matching rule applies',
  },
  direction: { type: 'string', choices: ['in', 'out', 'both'], default: 'both', help: 'in: received; out: sent' },
  frames: {
    type: 'string',
    choices: ['raw', 'plain', 'full'],
    default: 'raw',
    help: 'plain: decrypted; full: decrypted, and sent as FULL',
  },
  redirect: { type: 'boolean', help: 'send to the targets only' },
  disabled: { type: 'boolean', help: 'stored but inactive' },
  replace: { type: 'boolean', help: 'replace a rule of the same name' },
}

const list = (value: OptionValues[string]): string[] =>
  ((value as readonly string[] | undefined) ?? [])
    .flatMap(item => item.split(','))
    .map(item => item.trim())
    .filter(Boolean)

function ruleOf(options: OptionValues, fallback: string): Record<string, unknown> {
  const { 'to-protocol': protocol, 'to-host': host, 'to-port': port } = options
  const parts =
    protocol === undefined ? [] : [{ medium: String(protocol), ...(host ? { host } : {}), ...(port ? { port } : {}) }]
  const to = [...list(options.to).map(parseTarget), ...parts]
  if (to.length === 0) throw new OsError('USAGE', 'a rule needs a target: --to tcp://HOST:PORT')
  return {
    name: options.name ?? fallback,
    set: options.set,
    enabled: options.disabled !== true,
    priority: options.priority,
    direction: options.direction,
    ...Object.fromEntries(Object.keys(MATCH).map(key => [key, list(options[key])])),
    frames: options.frames,
    copy: options.redirect !== true,
    to,
  }
}

export class PortForwarderService implements Service {
  readonly #host: PluginHost
  readonly #forwarder: Forwarder
  #store: RuleStore | undefined
  readonly #sections: readonly Section[]

  constructor(host: PluginHost) {
    this.#host = host
    const { max_pending } = host.settings()
    this.#forwarder = new Forwarder({
      node: host.node,
      ...(host.gateway && { gateway: host.gateway }),
      logger: host.logger,
      now: () => host.clock.wall(),
      maxPending: Number(max_pending),
      defaultMedium: () => host.config.get<string>('Node_Setting.default_medium'),
    })
    this.#sections = [
      {
        plugin_name: host.name,
        section_id: 'rules',
        display_name: 'Port forwarder',
        priority: 60,
        refresh_interval_s: 5,
        data: () => this.rows(),
      },
    ]
  }

  /** Reads the rules. Throws STORAGE. */
  autoLoad(): void {
    const { rules_file } = this.#host.settings()
    const { dataDir, files } = this.#host
    const path = rules_file ? resolve(dataDir, String(rules_file)) : join(dataDir, 'port_forwarder_rules.json')
    this.#store = new RuleStore(path, files)
    this.#forwarder.use(this.#rules)
  }

  start(): void {
    this.#forwarder.start()
  }

  stop(): Promise<void> {
    return this.#forwarder.stop()
  }

  status(): Record<string, unknown> {
    return {
      running: this.#forwarder.running,
      rules: this.#rules.length,
      enabled: this.#rules.filter(({ enabled }) => enabled).length,
      file: this.#saved.path,
      ...this.#forwarder.counters,
    }
  }

  displayProviders(): readonly Section[] {
    return this.#sections
  }

  /** One row per rule, with its counters. */
  rows(): Record<string, unknown>[] {
    return this.#rules.map(rule => ({
      name: rule.name,
      set: rule.set,
      enabled: rule.enabled,
      priority: rule.priority,
      direction: rule.direction,
      ...Object.fromEntries(Object.keys(MATCH).map(key => [key, rule[key as keyof typeof MATCH].join(' ')])),
      to: rule.to.map(targetText).join(' '),
      ...this.#forwarder.countersOf(rule.name),
    }))
  }

  /** Adds a rule and applies it immediately. Throws BAD_REQUEST, STORAGE. */
  addRule(input: unknown, replace = false): Rule {
    const rule = this.#saved.add(input, replace)
    this.#forwarder.use(this.#rules)
    return rule
  }

  /** Throws NOT_FOUND, STORAGE. */
  removeRule(name: string): Rule {
    const rule = this.#saved.remove(name)
    this.#forwarder.use(this.#rules)
    return rule
  }

  /** Throws NOT_FOUND, STORAGE. */
  enableRule(name: string, enabled: boolean): Rule {
    const rule = this.#saved.change(name, { enabled })
    this.#forwarder.use(this.#rules)
    return rule
  }

  getCliCommands(): Record<string, CliHandler> {
    const enabling = (enabled: boolean, summary: string): CliHandler => ({
      summary,
      example: 'north',
      options: { name: NAME },
      operands: ['name'],
      run: ({ name }) => ({ value: { ok: true, rule: this.enableRule(String(name), enabled) } }),
    })
    return {
      status: { summary: 'show state and counters', reads: true, run: () => ({ value: this.status() }) },
      list: { summary: 'list rules', reads: true, run: () => ({ value: { rules: this.#rules } }) },
      'add-rule': {
        summary: 'add a rule',
        example: 'north --medium UDP --device 7 --to tcp://10.0.0.2:8888',
        options: ADD,
        operands: ['name'],
        run: async options => {
          const rule = this.addRule(ruleOf(options, this.#freeName()), options.replace === true)
          return { value: { ok: true, rule, auto_start: await this.#keepOn(), ...this.#hint(rule) } }
        },
      },
      'remove-rule': {
        summary: 'remove a rule',
        example: 'north',
        options: { name: NAME },
        operands: ['name'],
        run: ({ name }) => ({ value: { ok: true, removed: this.removeRule(String(name)) } }),
      },
      'enable-rule': enabling(true, 'enable a rule'),
      'disable-rule': enabling(false, 'disable a rule and keep it'),
      test: {
        summary: 'list the rules that match a packet',
        example: '--medium UDP --source 10.0.0.9 --command DATA_FULL --device 7',
        reads: true,
        options: {
          medium: { type: 'string', value: 'MEDIUM', default: 'UDP', help: 'incoming medium' },
          source: { type: 'string', value: 'ADDRESS', default: 'local', help: 'source address' },
          command: { type: 'string', value: 'COMMAND', default: 'DATA_FULL', help: 'its command byte' },
          device: { type: 'string', value: 'DEVICE', help: 'id on the wire, or device name' },
          direction: { type: 'string', choices: ['in', 'out'], default: 'in', help: 'received, or sent from here' },
        },
        run: options => ({ value: this.#test(options) }),
      },
      stats: {
        summary: 'show counters of rules and targets',
        reads: true,
        run: () => ({
          value: {
            ...this.#forwarder.counters,
            rules_applied: Object.fromEntries(
              this.#rules.map(({ name }) => [name, { ...this.#forwarder.countersOf(name) }]),
            ),
            targets: this.#forwarder.targets(),
          },
        }),
      },
      'reset-stats': {
        summary: 'reset the counters of rules',
        run: () => {
          this.#forwarder.resetCounters()
          return { value: { ok: true } }
        },
      },
    }
  }

  get #saved(): RuleStore {
    if (!this.#store) throw new OsError('PLUGIN_FAILED', 'the rules were not loaded')
    return this.#store
  }

  get #rules(): readonly Rule[] {
    return this.#saved.rules
  }

  #freeName(): string {
    let n = this.#rules.length + 1
    while (this.#saved.find(`rule-${n}`)) n++
    return `rule-${n}`
  }

  /** What must be done before the targets of a rule accept packets. */
  #hint({ to }: Rule): { hint?: string } {
    const off = to.find(({ medium, ...options }) => {
      const transporter = this.#host.node.transporterManager.open(medium, options)
      void transporter?.close()
      return transporter === null
    })?.medium
    return off ? { hint: `${off} is switched off: os-node transporter-toggle --name ${off} --enable` } : {}
  }

  /** Makes the plugin start with the gateway, so that rules survive a restart. Returns whether it does. */
  async #keepOn(): Promise<boolean> {
    const { gateway, config, name, settings, logger } = this.#host
    if (gateway) await this.#host.start()
    if (settings().auto_start === true) return true
    try {
      config.set(`RESOURCES.service_plugins.${name}.auto_start`, true)
      return true
    } catch (error) {
      logger.warn(`the rules work until the next start: ${error instanceof Error ? error.message : String(error)}`)
      return false
    }
  }

  #test({ medium, source, command, device, direction }: OptionValues): Record<string, unknown> {
    const [cmd = -1] = commandBytes(String(command))
    const name = device === undefined ? null : String(device)
    const matched = this.#forwarder.matching({
      direction: direction as 'in' | 'out',
      medium: mediumInfo(String(medium))?.name ?? String(medium),
      address: String(source),
      cmd,
      aid: name !== null && /^\d+$/.test(name) ? Number(name) : null,
      device: () => name,
    })
    return { matched: matched.map(rule => rule.name), to: matched.flatMap(rule => rule.to.map(targetText)) }
  }
}

export const portForwarderPlugin: PluginDefinition = {
  name: 'port_forwarder',
  restart: true,
  create: host => new PortForwarderService(host),
}
