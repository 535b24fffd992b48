// core and log-level: two settings with their own commands. Both are keys of Config.json, so that they survive a
// restart.
import { CORE_NAMES, type CoreReport, coreProblem, lastChoice } from '../../cores'
import { OsError } from '../../lib/errors'
import type { Verb } from '../verb'

const CORE_KEY = 'engine_settings.core_backend'
/** The core that is used if `configured` is configured. */
export const activeCore = (configured: string): string =>
  coreProblem(configured) === null ? configured : CORE_NAMES[0]

interface Cores {
  readonly active: string
  readonly configured: string
  readonly available: readonly string[]
  /** of the gateway's links: of the running one, or what the last one measured */
  readonly gateway?: CoreReport
  readonly needs_restart?: boolean
}

const gatewayText = ({ uplinks, receivers, problem, measured }: CoreReport): string =>
  problem === undefined
    ? `${uplinks} for uplinks, ${receivers} for receivers, ${measured ? 'as measured here' : 'not measured'}`
    : `pycore for both: ${problem}`

const available = (): string[] => CORE_NAMES.filter(name => coreProblem(name) === null)

export const core: Verb<Cores, { set?: string }> = {
  name: 'core',
  summary: 'show or set the packet core',
  examples: ['os-node core', 'os-node core rscore'],
  options: {
    set: { type: 'string', value: 'NAME', help: 'core to use after the next start' },
    persist: { type: 'boolean', help: 'accepted for compatibility; --set is always kept' },
  },
  operands: ['set'],
  where: 'either',
  changes: options => options.set !== undefined,
  async run({ config, via, gateway: running }, { set: wanted }) {
    const configured = config.get<string>(CORE_KEY)
    if (wanted !== undefined) {
      if (!CORE_NAMES.includes(wanted))
        throw new OsError('NOT_FOUND', `no core ${JSON.stringify(wanted)} in this build`, {
          hint: `cores of this build: ${CORE_NAMES.join(', ')}`,
        })
      const { restart } = config.set(CORE_KEY, wanted)
      const waits = restart && via === 'gateway' && wanted !== configured
      return {
        value: {
          active: activeCore(waits ? configured : wanted),
          configured: wanted,
          available: available(),
          needs_restart: waits,
        },
      }
    }
    const gateway = running?.status().core ?? lastChoice(config.dataDir)
    return {
      value: { active: activeCore(configured), configured, available: available(), ...(gateway && { gateway }) },
    }
  },
  text: ({ active, configured, available, gateway }, paint) =>
    `${paint.bold(active)} encodes the packets; available: ${available.join(', ')}` +
    (configured === active
      ? ''
      : paint.warn(`; configured is ${configured}: ${coreProblem(configured) ?? 'effective at the next start'}`)) +
    (gateway ? `\ngateway: ${gatewayText(gateway)}` : ''),
}

const LEVELS = ['debug', 'info', 'warn', 'error'] as const

export const logLevel: Verb = {
  name: 'log-level',
  summary: 'show or set the minimum level of log lines',
  description: 'A running gateway applies it immediately.',
  examples: ['os-node log-level', 'os-node log-level debug'],
  options: { set: { type: 'string', value: 'LEVEL', choices: LEVELS, help: 'minimum level' } },
  operands: ['set'],
  where: 'either',
  changes: options => options.set !== undefined,
  async run({ config }, options) {
    const key = 'gateway.log_level'
    if (options.set === undefined) return { value: { level: config.get(key) } }
    const { old, new: level } = config.set(key, options.set)
    return { value: { level, old } }
  },
  text: ({ level }) => String(level),
}
