// outputs safe: sets every GPIO output to its configured value after a crash. For ExecStopPost of the service unit: the
// gateway that held the lines has ended, and the next start may be much later.
import type { OutputItem } from '../../links/hardware'
import type { Verb } from '../verb'
import { columns } from './status'

export const outputsSafe: Verb<{ outputs: readonly OutputItem[] }> = {
  name: 'outputs safe',
  summary: 'set every GPIO output to its on_fault (else on_stop) value',
  description:
    'For ExecStopPost of a service unit, after a crash; after a normal stop it does nothing. Exit 1 when an ' +
    'output could not be set. Whether a level stays once this command has ended is decided by the kernel: docs/wiring.md.',
  examples: ['os-node outputs safe', 'os-node outputs safe --config /etc/os-node/Config.json'],
  where: 'local',
  changes: true,
  tolerant: true,
  async run({ safeOutputs }) {
    const outputs = (await safeOutputs?.()) ?? []
    const failed = outputs.some(({ value, reason }) => value === null && reason !== 'kept as it is')
    return { value: { outputs }, exitCode: failed ? 1 : 0 }
  },
  text({ outputs }, paint) {
    if (outputs.length === 0) return 'no output to set'
    const rows = outputs.map(({ source, name, value: now, reason = '' }) => [
      `${source}.${name}`,
      now === null ? '-' : String(now),
      reason,
    ])
    return columns([['output', 'value', ''], ...rows], paint)
  },
}
