// Commands of the CLI, run by the gateway.
import { call } from './api'
import { quote } from './command-words'
import type { JobInfo } from './types'

export const execute = (command: string, background = false): Promise<JobInfo> =>
  call<JobInfo>('POST', '/api/oscli/execute', { body: { command, background }, timeoutMs: 120_000 })

/** Runs a command that prints one JSON object. Throws its message if it failed. */
export async function executeJson(words: readonly string[]): Promise<Record<string, unknown>> {
  const job = await execute([...words, '--json'].map(quote).join(' '))
  let value: unknown
  try {
    value = JSON.parse(job.stdout)
  } catch {
    // the output is not JSON: use its text as the error
  }
  // `ok` false means that a command could not run
  if (typeof value === 'object' && value !== null && !('ok' in value && value.ok === false))
    return value as Record<string, unknown>
  throw new Error(job.stderr.trim() || job.stdout.trim() || `the command ended with ${job.exit_code}`)
}
