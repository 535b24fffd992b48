// The command line over HTTP (S7, X21): the same verbs, parsed to argv in this process, never by a shell. There are
// limits for time, output and parallel commands; each command is logged without secret values. Background jobs are
// queued.
//
// Errors: a command that runs and fails is a completed job with its exit code. A command that cannot run here, crashes,
// or exceeds a limit is `failed` with the reason on stderr. A full queue is TOO_MANY_JOBS. Finished jobs are stored;
// the oldest are evicted, and their output before them.
import { randomUUID } from 'node:crypto'
import { type Clock, systemClock } from '../lib/clock'
import { asOsError, errorJson, OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import { maskText } from '../lib/secrets'
import { systemTimers, type Timers } from '../lib/timers'
import { mayAct, type Role } from '../services/users'
import { auditText, splitCommand } from './argv'
import type { CommandContext } from './context'
import { isOver, type Job, type JobLimits, type JobRequest, LIMITS, withoutPartialOutput } from './job'
import { type CommandPlan, planOf } from './plan'
import { roleOf } from './roles'
import { type AnyVerb, failureOf, PLAIN, resultText } from './verb'

export { briefJob, type Job, type JobLimits, type JobRequest, type JobStatus } from './job'

export interface JobRunnerOptions {
  readonly verbs: readonly AnyVerb[]
  /** of the running gateway */
  readonly context: CommandContext
  readonly logger: Logger
  readonly clock?: Clock
  readonly timers?: Timers
  readonly limits?: Partial<JobLimits>
}

interface JobEntry {
  job: Job
  readonly role: Role
  readonly plan: CommandPlan
  readonly stop: AbortController
  settle: () => void
  readonly settled: Promise<void>
}

const errorText = (message: string, hint: string): string => `os-node: ${message}\n${hint ? `  ${hint}\n` : ''}`

/** A remote caller must not read files or the terminal of this machine. */
const refuseInput = (what: string) => (): Promise<string> =>
  Promise.reject(new OsError('USAGE', `a gateway reads no ${what} for a command`))

export class JobRunner {
  readonly #options: Required<Omit<JobRunnerOptions, 'limits'>>
  readonly #limits: JobLimits
  readonly #jobs = new Map<string, JobEntry>()
  readonly #queue: JobEntry[] = []
  readonly #listeners = new Set<(job: Job, needed: Role) => void>()
  #foreground = 0
  #background = 0
  #stopped = false
  readonly counters = { total: 0, failed: 0, cancelled: 0, refused: 0 }

  constructor({ limits = {}, ...options }: JobRunnerOptions) {
    this.#options = { clock: systemClock, timers: systemTimers, ...options }
    this.#limits = { ...LIMITS, ...limits }
  }

  /**
   * Runs a command; resolves with its result, for a background job immediately. Throws BAD_REQUEST (empty, unbalanced
   * quotes), FORBIDDEN `role <x> required`, TOO_MANY_JOBS.
   */
  async submit(request: JobRequest): Promise<Job> {
    const { command, background = false, role, username, remote, signal } = request
    const argv = splitCommand(command)
    const plan = planOf(this.#options.verbs, this.#options.context.version, argv)
    // a command that cannot run needs no role
    const needed = plan.verb ? roleOf(plan.verb, plan.options) : 'operator'
    const line = `${username} at ${remote}: ${auditText(argv)}`
    if (!mayAct(role, needed)) {
      this.#options.logger.warn(`refused, role ${needed} required: ${line}`)
      throw new OsError('FORBIDDEN', `role ${needed} required`)
    }
    const { queue, foregroundJobs } = this.#limits
    if (this.#stopped || (background ? this.#queue.length >= queue : this.#foreground >= foregroundJobs)) {
      this.counters.refused++
      throw new OsError('TOO_MANY_JOBS', 'too many commands run already')
    }
    this.#options.logger.info(line)
    const entry = this.#enter(request, auditText(argv), plan, needed)
    if (background) {
      this.#queue.push(entry)
      this.#next()
      return withoutPartialOutput(entry.job)
    }
    const disconnected = (): void => this.#end(entry, 'cancelled', 'the caller disconnected')
    signal?.addEventListener('abort', disconnected, { once: true })
    this.#foreground++
    void this.#run(entry, this.#limits.foregroundMs).finally(() => this.#foreground--)
    await entry.settled
    signal?.removeEventListener('abort', disconnected)
    return entry.job
  }

  /** Newest first; only those that `role` may see. */
  list(role: Role, limit: number): Job[] {
    const seen = [...this.#jobs.values()].reverse().filter(entry => mayAct(role, entry.role))
    return seen.slice(0, limit).map(({ job }) => withoutPartialOutput(job))
  }

  /** Throws NOT_FOUND. */
  get(id: string, role: Role): Job {
    return withoutPartialOutput(this.#known(id, role).job)
  }

  /** Ends a queued or running job; a finished one is unchanged. Throws NOT_FOUND. */
  cancel(id: string, role: Role, username: string): Job {
    const entry = this.#known(id, role)
    if (!isOver(entry.job)) {
      this.#options.logger.info(`${username} cancels ${id}`)
      this.#end(entry, 'cancelled', `cancelled by ${username}`)
    }
    return entry.job
  }

  /** Reports every change of a job, with the role that may see it. Returns the function that ends it. */
  onJob(listener: (job: Job, needed: Role) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  get running(): number {
    return this.#foreground + this.#background
  }

  get queued(): number {
    return this.#queue.length
  }

  /** Accepts no more jobs and ends those that run. */
  stop(): void {
    this.#stopped = true
    for (const entry of this.#jobs.values()) this.#end(entry, 'failed', 'the gateway stops')
  }

  #enter({ background = false, username }: JobRequest, command: string, plan: CommandPlan, role: Role): JobEntry {
    let settle = (): void => undefined
    const settled = new Promise<void>(resolve => {
      settle = resolve
    })
    const job: Job = {
      ok: true,
      job_id: randomUUID(),
      status: 'queued',
      stdout: '',
      stderr: '',
      exit_code: null,
      command,
      background,
      username,
      created_at: this.#now(),
      started_at: null,
      finished_at: null,
      truncated: false,
    }
    const entry: JobEntry = { job, role, plan, stop: new AbortController(), settle, settled }
    this.#jobs.set(job.job_id, entry)
    this.counters.total++
    this.#forget()
    this.#notify(entry)
    return entry
  }

  #next(): void {
    while (this.#background < this.#limits.backgroundJobs) {
      const entry = this.#queue.shift()
      if (!entry) return
      if (isOver(entry.job)) continue
      this.#background++
      void this.#run(entry, this.#limits.backgroundMs).finally(() => {
        this.#background--
        this.#next()
      })
    }
  }

  /** Resolves when the verb has really ended, possibly after its job was ended. */
  async #run(entry: JobEntry, limitMs: number): Promise<void> {
    this.#change(entry, { status: 'running', started_at: this.#now() })
    const cancel = this.#options.timers.after(limitMs, () =>
      this.#end(entry, 'failed', `stopped after ${limitMs / 1000} s, the limit for a command`),
    )
    try {
      const exit_code = await this.#execute(entry)
      this.#finish(entry, 'completed', exit_code)
    } catch (thrown) {
      const error = asOsError(thrown)
      const { json, verb } = entry.plan
      const failure = errorJson(error, entry.job.command.split(' ')[0]!)
      this.#write(entry, 'stderr', errorText(error.message, failure.hint))
      if (json || verb?.json) this.#write(entry, 'stdout', `${JSON.stringify(failure)}\n`)
      const ran = entry.plan.verb !== null && error.code !== 'INTERNAL'
      if (error.code === 'INTERNAL') this.#options.logger.error(`${entry.job.command}: ${error.message}`)
      this.#finish(entry, ran ? 'completed' : 'failed', error.traits.exit)
    } finally {
      cancel()
    }
  }

  async #execute(entry: JobEntry): Promise<number> {
    const { plan, stop } = entry
    const { verb, options, json, help, problem } = plan
    if (problem) throw problem
    if (!verb) {
      this.#write(entry, 'stdout', help ?? '')
      return 0
    }
    const line = (text: string): void => this.#write(entry, 'stdout', `${text}\n`)
    const context: CommandContext = {
      ...this.#options.context,
      signal: stop.signal,
      print: (value, text) => line(json ? JSON.stringify(value) : text),
    }
    const prepared = verb.prepare
      ? await verb.prepare(options, refuseInput('files'), refuseInput('stdin'), () => undefined)
      : options
    const { value, text, rows, exitCode = 0 } = await verb.run(context, prepared)
    for await (const row of rows ?? []) {
      if (stop.signal.aborted) break
      const shown = json || !verb.rowText ? JSON.stringify(row) : verb.rowText(row, PLAIN)
      if (shown !== '') line(shown)
    }
    const failure = exitCode === 0 || !value ? undefined : failureOf(value)
    if (value && json) line(JSON.stringify({ ...value, via: context.via }))
    else if (value && verb.json) line(JSON.stringify(value))
    else if (!failure && text !== undefined) line(text)
    else if (!failure && value) line(resultText(verb, { ...value, via: context.via }, PLAIN))
    if (failure) this.#write(entry, 'stderr', errorText(failure.message, failure.hint))
    return exitCode
  }

  #write(entry: JobEntry, stream: 'stdout' | 'stderr', output: string): void {
    if (isOver(entry.job)) return
    const text = entry.plan.verb?.printsSecret ? output : maskText(output)
    const room = this.#limits.outputChars - entry.job[stream].length
    entry.job = { ...entry.job, [stream]: entry.job[stream] + text.slice(0, Math.max(0, room)) }
    if (text.length <= room) return
    entry.job = { ...entry.job, truncated: true }
    if (stream === 'stdout')
      this.#end(entry, 'failed', `stopped after ${this.#limits.outputChars} characters of output`)
  }

  /** Ends a job early: its verb gets the signal, the job is over immediately. */
  #end(entry: JobEntry, status: 'failed' | 'cancelled', why: string): void {
    if (isOver(entry.job)) return
    this.#write(entry, 'stderr', `os-node: ${why}\n`)
    this.#finish(entry, status, entry.job.started_at === null ? null : status === 'failed' ? 124 : 130)
    entry.stop.abort()
  }

  #finish(entry: JobEntry, status: 'completed' | 'failed' | 'cancelled', exit_code: number | null): void {
    if (isOver(entry.job)) return
    if (status !== 'completed') this.counters[status]++
    this.#change(entry, { status, exit_code, finished_at: this.#now() })
    this.#forget()
    entry.settle()
  }

  #change(entry: JobEntry, change: Partial<Job>): void {
    entry.job = { ...entry.job, ...change }
    this.#notify(entry)
  }

  #notify({ job, role }: JobEntry): void {
    for (const listener of this.#listeners) listener(withoutPartialOutput(job), role)
  }

  #known(id: string, role: Role): JobEntry {
    const entry = this.#jobs.get(id)
    if (!entry || !mayAct(role, entry.role)) throw new OsError('NOT_FOUND', 'job not found', { details: { id } })
    return entry
  }

  /** Enforces the limits `kept` and `keptChars`; queued and running jobs stay. */
  #forget(): void {
    const { kept, keptChars } = this.#limits
    let chars = 0
    for (const { job } of this.#jobs.values()) chars += job.stdout.length + job.stderr.length
    for (const [id, entry] of this.#jobs) {
      const { job } = entry
      if (this.#jobs.size <= kept && chars <= keptChars) return
      if (!isOver(job)) continue
      chars -= job.stdout.length + job.stderr.length
      if (this.#jobs.size > kept) this.#jobs.delete(id)
      else if (job.stdout || job.stderr) entry.job = { ...job, stdout: '', stderr: '', truncated: true }
    }
  }

  #now(): number {
    return Math.round(this.#options.clock.wall()) / 1000
  }
}
