// The command line of the gateway: os-node commands, run in the gateway, never by a shell. Foreground commands show
// their output when they end; background ones are in the list of jobs.
import { useEffect, useRef, useState } from 'preact/hooks'
import { age } from '../format'
import { useAction } from '../lib/action'
import { sayError } from '../lib/action-message'
import { asApiError, call, query } from '../lib/api'
import { execute } from '../lib/jobs'
import { jobNews, now } from '../lib/live'
import { useStore } from '../lib/observable'
import { useResource, useSeconds } from '../lib/resource'
import { may, session } from '../lib/session'
import type { JobInfo } from '../lib/types'
import { Button, Card, Check, Empty, Items, Pill } from '../ui/parts'
import { WriteNote } from '../ui/writenote'

const KEPT = 50
const REFRESH_MS = 3_000
const EXAMPLES = ['help', 'status', 'source list', 'transport-status', 'log verify']

interface Line {
  readonly id: number
  readonly kind: 'command' | 'out' | 'err' | 'end'
  readonly text: string
}

/** The typed commands, for the arrow keys. */
const typed: string[] = []
let count = 0

const linesOf = (job: JobInfo): Omit<Line, 'id'>[] => [
  ...(job.stdout ? [{ kind: 'out' as const, text: job.stdout.replace(/\n$/, '') }] : []),
  ...(job.stderr ? [{ kind: 'err' as const, text: job.stderr.replace(/\n$/, '') }] : []),
  ...(job.status !== 'completed' || job.exit_code !== 0
    ? [{ kind: 'end' as const, text: `${job.status}${job.exit_code === null ? '' : `, exit code ${job.exit_code}`}` }]
    : []),
]

function Prompt({ onRun, busy }: { onRun(command: string, background: boolean): void; busy: boolean }) {
  const [text, setText] = useState('')
  const [background, setBackground] = useState(false)
  const at = useRef(typed.length)
  const input = useRef<HTMLInputElement>(null)

  function key(event: KeyboardEvent): void {
    const step = event.key === 'ArrowUp' ? -1 : event.key === 'ArrowDown' ? 1 : 0
    if (step === 0 || typed.length === 0) return
    event.preventDefault()
    at.current = Math.min(typed.length, Math.max(0, at.current + step))
    setText(typed[at.current] ?? '')
  }
  function submit(event: SubmitEvent): void {
    event.preventDefault()
    const command = text.trim().replace(/^os-node\s+/, '')
    if (command === '' || busy) return
    if (typed.at(-1) !== command) typed.push(command)
    at.current = typed.length
    setText('')
    onRun(command, background)
    input.current?.focus()
  }
  return (
    <form class="prompt" onSubmit={submit}>
      <label for="command">Command</label>
      <div class="line">
        <span class="mono" aria-hidden="true">
          os-node
        </span>
        <input
          ref={input}
          id="command"
          class="mono"
          value={text}
          autocomplete="off"
          autocapitalize="none"
          autocorrect="off"
          spellcheck={false}
          placeholder="status"
          enterkeyhint="send"
          aria-describedby="command-help"
          onInput={event => setText(event.currentTarget.value)}
          onKeyDown={key}
        />
        <button type="submit" class="primary" disabled={busy}>
          {busy ? 'Running …' : 'Run'}
        </button>
      </div>
      <div class="row wrap">
        <Check id="command-background" label="In the background" on={background} onChange={setBackground} />
        <span class="quiet small" id="command-help">
          Try{' '}
          {EXAMPLES.map((example, k) => (
            <>
              {k > 0 && ', '}
              <button type="button" class="linklike" onClick={() => setText(example)}>
                {example}
              </button>
            </>
          ))}
        </span>
      </div>
    </form>
  )
}

function JobRow({ job, onShow, reload }: { job: JobInfo; onShow(job: JobInfo): void; reload(): void }) {
  const over = job.status !== 'queued' && job.status !== 'running'
  const { act } = useAction(reload)
  const cancel = async (): Promise<string> => {
    await call('POST', '/api/oscli/cancel', { body: { job_id: job.job_id } })
    return 'The job was cancelled'
  }
  async function show(): Promise<void> {
    try {
      onShow((await call<{ job: JobInfo }>('GET', `/api/oscli/jobs${query({ id: job.job_id })}`)).job)
    } catch (thrown) {
      sayError(thrown, 'No output')
    }
  }
  const started = job.started_at ?? job.created_at
  return (
    <li>
      <div class="row">
        <code class="break clamp" title={job.command}>
          {job.command}
        </code>
        <Pill state={job.status === 'completed' && job.exit_code !== 0 ? 'failed' : job.status} text={job.status} />
      </div>
      <div class="row">
        <p class="counts">
          {started ? age(now(), started * 1000) : ''}
          {job.exit_code !== null && ` · exit code ${job.exit_code}`}
        </p>
        <div class="buttons">
          <Button aria-label={`Output of ${job.command}`} onClick={() => void show()}>
            Output
          </Button>
          {!over && (
            <Button aria-label={`Cancel ${job.command}`} onClick={() => void act('Not cancelled', cancel)}>
              Cancel
            </Button>
          )}
        </div>
      </div>
    </li>
  )
}

function Jobs({ onShow }: { onShow(job: JobInfo): void }) {
  const list = useResource<{ jobs: readonly JobInfo[] }>('/api/oscli/jobs?limit=20', REFRESH_MS)
  const news = useStore(jobNews)
  useSeconds()
  useEffect(() => {
    if (news) list.reload()
  }, [news])
  return (
    <Card title="Jobs">
      <Items from={list} what="a list of jobs" of={({ jobs }) => jobs} empty="No jobs yet">
        {job => <JobRow key={job.job_id} job={job} onShow={onShow} reload={list.reload} />}
      </Items>
    </Card>
  )
}

export function Console() {
  const { known } = useStore(session)
  const [lines, setLines] = useState<readonly Line[]>([])
  const [busy, setBusy] = useState(false)
  const screen = useRef<HTMLDivElement>(null)
  useEffect(() => screen.current?.scrollTo({ top: screen.current.scrollHeight }), [lines])

  const print = (...more: Omit<Line, 'id'>[]): void =>
    setLines(old => [...old, ...more.map(line => ({ ...line, id: ++count }))].slice(-KEPT))

  async function run(command: string, background: boolean): Promise<void> {
    print({ kind: 'command', text: command })
    setBusy(true)
    try {
      const job = await execute(command, background)
      if (background) print({ kind: 'end', text: `running in the background: ${job.job_id}` })
      else print(...linesOf(job))
    } catch (thrown) {
      print({ kind: 'err', text: asApiError(thrown).message })
    }
    setBusy(false)
  }

  if (!known) return <Empty>Loading …</Empty>
  if (!may('operator')) return <WriteNote needs="operator" what="running commands" />
  return (
    <div class="stack">
      <WriteNote needs="operator" what="running commands" />
      <Card title="Command line">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls must be reachable by keyboard */}
        <div class="screen" ref={screen} role="log" aria-label="Output" tabIndex={0}>
          {lines.length === 0 && <p class="quiet">Output appears here</p>}
          {lines.map(({ id, kind, text }) => (
            <pre key={id} data-kind={kind}>
              {text}
            </pre>
          ))}
        </div>
        <Prompt onRun={(command, background) => void run(command, background)} busy={busy} />
      </Card>
      <Jobs onShow={job => print({ kind: 'command', text: job.command ?? job.job_id }, ...linesOf(job))} />
    </div>
  )
}
