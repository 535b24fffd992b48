// The result of a check of the doctor.
import type { CommandContext } from '../context'
import type { Machine } from './machine'

export interface Finding {
  /** 'warning': it works, but something should be done; 'skipped': nothing to check here */
  readonly state: 'ok' | 'warning' | 'failed' | 'skipped'
  readonly text: string
  /** what to do */
  readonly hint?: string
}

export interface DoctorContext {
  readonly context: CommandContext
  readonly machine: Machine
}

/** Checks by name, in the order of the report. */
export type Checks = Readonly<Record<string, (doctor: DoctorContext) => Finding | Promise<Finding>>>

export const ok = (text: string): Finding => ({ state: 'ok', text })
export const skipped = (text: string): Finding => ({ state: 'skipped', text })
export const warning = (text: string, hint?: string): Finding => ({ state: 'warning', text, ...(hint && { hint }) })
export const failed = (text: string, hint?: string): Finding => ({ state: 'failed', text, ...(hint && { hint }) })

const WORSE = { skipped: 0, ok: 1, warning: 2, failed: 3 } as const

/** Merges several findings into one: the worst state, the texts of the findings with that state, each hint once. */
export function worst(findings: readonly Finding[], none: Finding): Finding {
  const state = findings.reduce<Finding['state']>((a, { state: b }) => (WORSE[b] > WORSE[a] ? b : a), 'skipped')
  const chosen = findings.filter(finding => finding.state === state)
  if (chosen.length === 0) return none
  const hints = [...new Set(chosen.flatMap(({ hint }) => hint ?? []))]
  return { state, text: chosen.map(({ text }) => text).join('; '), ...(hints.length > 0 && { hint: hints.join('; ') }) }
}
