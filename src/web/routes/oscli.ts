// The command line over HTTP (S7, X21).
import * as v from 'valibot'
import type { Job } from '../../commands/jobs'
import { flag, limit, text } from '../query'
import { type Call, type Route, route } from '../route'
import * as s from '../schemas'

const executeBody = v.object({
  command: v.string('command must be a text'),
  background: v.optional(v.boolean(), false),
})

const cancelBody = v.object({ job_id: s.needed('job_id') })

/** characters of an output in a list without include_output */
const PREVIEW_CHARS = 400

/** The job with at most `chars` characters of each stream. */
function cut(job: Job, chars: number): Job {
  if (job.stdout.length <= chars && job.stderr.length <= chars) return job
  return { ...job, stdout: job.stdout.slice(0, chars), stderr: job.stderr.slice(0, chars), truncated: true }
}

function show({ context: { jobs }, query, session: { role } }: Call): object {
  const chars = Number(query.output_limit)
  if (query.id !== undefined) return { ok: true, job: cut(jobs.get(String(query.id), role), chars) }
  const shown = query.include_output ? chars : PREVIEW_CHARS
  return { ok: true, jobs: jobs.list(role, Number(query.limit)).map(job => cut(job, shown)) }
}

const one = v.strictObject(s.job)

export const OSCLI: readonly Route[] = [
  route('POST /api/oscli/execute', {
    role: 'operator',
    write: 'state',
    audited: true,
    summary: 'runs an os-node command, never a shell; operators: commands that read, or switch media and plugins',
    body: executeBody,
    answer: one,
    run: ({ context, body, session, remote, signal }) =>
      context.jobs.submit({ ...body, role: session.role, username: session.username, remote, signal }),
  }),
  route('GET /api/oscli/jobs', {
    role: 'operator',
    summary: 'commands, newest first, or one by its id',
    query: {
      id: text,
      limit: limit(20, 200),
      include_output: flag,
      output_limit: { type: 'integer', min: 1000, max: 2_000_000, fallback: 200_000 },
    },
    answer: v.union([s.answer({ jobs: v.array(one) }), s.answer({ job: one })]),
    run: show,
  }),
  route('POST /api/oscli/cancel', {
    role: 'operator',
    write: 'state',
    audited: true,
    summary: 'ends a queued or running command',
    body: cancelBody,
    answer: s.answer({ job: one }),
    run: ({ context, body, session }) => ({
      ok: true,
      job: context.jobs.cancel(body.job_id, session.role, session.username),
    }),
  }),
]
