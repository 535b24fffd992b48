// doctor (also: diagnose): named checks of this machine, its configuration and its links, each with advice. It changes
// nothing and works with a broken configuration; a check that throws is a finding. Exit 1 if one failed.
import { counted } from '../../lib/counted'
import { asOsError } from '../../lib/errors'
import type { CommandContext } from '../context'
import { type Checks, type Finding, failed } from '../doctor/finding'
import { INSTALLATION_CHECKS } from '../doctor/installation'
import { LINK_CHECKS } from '../doctor/link-checks'
import { type Machine, realMachine } from '../doctor/machine'
import { MACHINE_CHECKS } from '../doctor/machine-checks'
import type { Paint, Verb } from '../verb'

export const CHECKS: Checks = { ...INSTALLATION_CHECKS, ...MACHINE_CHECKS, ...LINK_CHECKS }

interface Report extends Finding {
  readonly name: string
}

/** Runs every check, one after the other. */
export async function examine(context: CommandContext, machine: Machine, checks = CHECKS): Promise<Report[]> {
  const reports: Report[] = []
  for (const [name, run] of Object.entries(checks)) {
    if (context.signal.aborted) break
    const finding = await Promise.resolve()
      .then(() => run({ context, machine }))
      .catch((thrown): Finding => {
        const { message, hint } = asOsError(thrown)
        return failed(`the check did not complete: ${message}`, hint)
      })
    reports.push({ name, ...finding })
  }
  return reports
}

const MARKS: Record<Finding['state'], (paint: Paint) => string> = {
  ok: paint => paint.good('ok     '),
  warning: paint => paint.warn('warning'),
  failed: paint => paint.bad('failed '),
  skipped: paint => paint.dim('skipped'),
}

interface Diagnosis {
  readonly ok: boolean
  readonly failed: number
  readonly warnings: number
  readonly checks: readonly Report[]
}

function text({ checks, failed: bad, warnings }: Diagnosis, paint: Paint): string {
  const width = Math.max(...checks.map(({ name }) => name.length))
  const lines = checks.flatMap(({ name, state, text: said, hint }) => [
    `${MARKS[state](paint)}  ${name.padEnd(width)}  ${said}`,
    ...(hint && state !== 'ok' ? [`${' '.repeat(width + 11)}${paint.dim(`→ ${hint}`)}`] : []),
  ])
  const sum =
    bad > 0
      ? paint.bad(`${bad} failed`)
      : warnings > 0
        ? paint.warn(counted(warnings, 'warning'))
        : paint.good('no problems')
  return [...lines, '', bad > 0 && warnings > 0 ? `${sum}, ${counted(warnings, 'warning')}` : sum].join('\n')
}

export const doctor: Verb<Diagnosis> = {
  name: 'doctor',
  aliases: ['diagnose'],
  summary: 'diagnose problems and suggest fixes',
  description:
    'Changes nothing. A running gateway reports the state of its links; without one, ports and upstream are probed.',
  examples: ['os-node doctor', 'os-node diagnose --json'],
  where: 'either',
  tolerant: true,
  async run(context) {
    const checks = await examine(context, realMachine())
    const count = (state: Finding['state']): number => checks.filter(check => check.state === state).length
    const bad = count('failed')
    return { value: { ok: bad === 0, failed: bad, warnings: count('warning'), checks }, exitCode: bad === 0 ? 0 : 1 }
  },
  text,
}
