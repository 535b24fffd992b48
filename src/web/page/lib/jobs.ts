// Commands of the CLI, run by the gateway.
import { call } from './api'
import type { Job } from './types'
import { quote } from './words'

export const execute = (command: string, background = false): Promise<Job> =>
  call<Job>('POST', '/api/oscli/execute', { body: { command, background }, timeoutMs: 120_000 })

/** Runs a command that prints one JSON object. Throws what it said when it failed without one. */
export async function executeJson(words: readonly string[]): Promise<Record<string, unknown>> {
  const job = await execute(words.map(quote).join(' '))
  try {
    const value: unknown = JSON.parse(job.stdout)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {
    // what it printed is no JSON: its words are the error
  }
  throw new Error(job.stderr.trim() || job.stdout.trim() || `the command ended with ${job.exit_code}`)
}
