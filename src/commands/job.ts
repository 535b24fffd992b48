// State of a command over HTTP while it is queued, running or finished (X21), and its limits (S7).
import type { Role } from '../services/users'

export type JobStatus = 'queued' | 'running' | 'completed' | 'failed' | 'cancelled'

/** The specification's job result, flat, with the additions of X21. Times are UNIX seconds. */
export interface Job {
  readonly ok: boolean
  readonly job_id: string
  readonly status: JobStatus
  readonly stdout: string
  readonly stderr: string
  /** null until it has ended */
  readonly exit_code: number | null
  readonly command: string
  readonly background: boolean
  readonly username: string
  readonly created_at: number
  readonly started_at: number | null
  readonly finished_at: number | null
  /** output was truncated, or is no longer stored */
  readonly truncated: boolean
}

/** A job without its output, which is requested by id. */
export const briefJob = ({ stdout, stderr, ...job }: Job): object => ({
  ...job,
  stdout_len: stdout.length,
  stderr_len: stderr.length,
})

export interface JobRequest {
  readonly command: string
  readonly background?: boolean
  readonly role: Role
  readonly username: string
  readonly remote: string
  /** aborted when the caller of a foreground job disconnects */
  readonly signal?: AbortSignal
}

export const LIMITS = {
  foregroundMs: 60_000,
  backgroundMs: 600_000,
  /** of each of stdout and stderr */
  outputChars: 1_000_000,
  foregroundJobs: 4,
  backgroundJobs: 2,
  queue: 32,
  kept: 200,
  /** output of all stored jobs together */
  keptChars: 4_000_000,
}
export type JobLimits = Readonly<typeof LIMITS>

export const isOver = ({ status }: Job): boolean => status !== 'queued' && status !== 'running'

/** Output is sent as an event only when it is complete (X21). */
export const withoutPartialOutput = (job: Job): Job => (isOver(job) ? job : { ...job, stdout: '', stderr: '' })
