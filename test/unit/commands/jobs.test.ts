// The command line over HTTP (S7, X21): one process, no shell, limits, and a log line for each command.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { auditText, splitCommand } from '../../../src/commands/argv'
import { type Job, type JobLimits, JobRunner } from '../../../src/commands/jobs'
import type { AnyVerb } from '../../../src/commands/verb'
import { OsError } from '../../../src/lib/errors'
import { createLogger } from '../../../src/lib/logger'
import { ManualClock } from '../../lib/manual'
import { FakeWorld } from '../node/media'
import { fake } from './fake'

const verb = (name: string, run: AnyVerb['run'], more: Partial<AnyVerb> = {}): AnyVerb => ({
  name,
  summary: name,
  examples: [],
  options: {},
  where: 'either',
  run,
  ...more,
})

function rig(limits: Partial<JobLimits> = {}) {
  const clock = new ManualClock()
  const lines: string[] = []
  const logger = createLogger({ write: line => void lines.push(line), collapseMs: 0 })
  const due: { at: number; run: () => void }[] = []
  const release: (() => void)[] = []
  const aborted: string[] = []
  const verbs: AnyVerb[] = [
    verb('show', async (_, options) => ({ value: { got: options } }), {
      options: { text: { type: 'string', help: '' }, 'api-key': { type: 'string', help: '' } },
      text: value => `for people: ${JSON.stringify(value)}`,
    }),
    verb('fail', async () => ({ value: { error: 'no' }, exitCode: 3 })),
    verb('refuse', () => Promise.reject(new OsError('BAD_PACKET', 'these bytes are no packet'))),
    verb('bare', () => Promise.reject(new OsError('USAGE', 'not so')), { json: true }),
    verb('break', () => Promise.reject(new TypeError('x is not a function'))),
    verb('change', async () => ({ value: { done: true } })),
    verb('open', async (_, { file }) => ({ value: { file } }), {
      options: { file: { type: 'string', help: '' } },
      prepare: async (options, read) => ({ ...options, file: await read(String(options.file)) }),
    }),
    verb('doctor', async () => ({ value: { ok: true } })),
    verb('deps', async () => ({ value: { ok: true } }), {
      options: { cmd: { type: 'string', help: '' } },
      changes: ({ cmd }) => cmd !== 'check',
    }),
    verb('alone', async () => ({}), { where: 'local' }),
    verb('flood', async ({ signal }) => ({
      rows: (async function* () {
        for (let n = 0; !signal.aborted; n++) yield { n, fill: 'x'.repeat(100) }
        aborted.push('flood')
      })(),
    })),
    verb('wait', async ({ signal, print }) => {
      print({ waiting: true }, 'I wait')
      await new Promise<void>(resolve => {
        release.push(resolve)
        signal.addEventListener('abort', () => {
          aborted.push('wait')
          resolve()
        })
      })
      return { value: { waited: true } }
    }),
  ]
  const runner = new JobRunner({
    verbs,
    context: fake(new FakeWorld().config(), { inGateway: true }).context,
    logger,
    clock,
    timers: {
      after: (ms, run) => {
        const entry = { at: clock.mono() + ms, run }
        due.push(entry)
        return () => void due.splice(due.indexOf(entry) >>> 0, due.includes(entry) ? 1 : 0)
      },
    },
    limits,
  })
  const advance = (ms: number): void => {
    clock.advance(ms)
    for (const entry of due.filter(({ at }) => at <= clock.mono())) entry.run()
  }
  const run = (command: string, more: object = {}): Promise<Job> =>
    runner.submit({ command, role: 'admin', username: 'ann', remote: '::1', ...more })
  return { runner, run, advance, lines, release, aborted }
}

const settled = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

test('X21: a command that ends is `completed` whatever its exit code, with its output as the CLI prints it', async () => {
  const { run } = rig()
  const job = await run('os-node show --text "a b"')
  assert.match(job.job_id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  const { job_id: _, ...rest } = job
  assert.deepEqual(rest, {
    ok: true,
    status: 'completed',
    stdout: 'for people: {"got":{"text":"a b"}}\n',
    stderr: '',
    exit_code: 0,
    command: 'show --text "a b"',
    background: false,
    username: 'ann',
    created_at: 1_710_000_000,
    started_at: 1_710_000_000,
    finished_at: 1_710_000_000,
    truncated: false,
  })
  assert.equal((await run('show --json')).stdout, '{"got":{"json":true},"via":"gateway"}\n')
  const failed = await run('fail')
  assert.deepEqual(
    [failed.status, failed.exit_code, failed.stdout, failed.stderr],
    ['completed', 3, '', 'os-node: no\n'],
  )
  const refused = await run('refuse --json')
  assert.deepEqual([refused.status, refused.exit_code], ['completed', 1])
  assert.match(refused.stderr, /^os-node: these bytes are no packet\n/)
  assert.equal(JSON.parse(refused.stdout).code, 'BAD_PACKET')
  // a command that always prints JSON prints its errors as JSON too, and the hint names the command
  const bare = await run('bare')
  assert.equal(JSON.parse(bare.stdout).hint, 'see os-node bare --help')
  assert.match(bare.stderr, /not so\n {2}see os-node bare --help/)
})

test('a command that cannot run here is `failed`: unknown commands, wrong options, commands that need their own process, defects', async () => {
  const { run } = rig()
  for (const [command, exit, stderr] of [
    ['nothing', 2, /no command "nothing"/],
    ['show --texd x', 2, /did you mean --text/],
    ['alone', 2, /does not run inside a gateway/],
    ['break', 1, /x is not a function/],
  ] as const) {
    const job = await run(command)
    assert.deepEqual([job.ok, job.status, job.exit_code], [true, 'failed', exit], command)
    assert.match(job.stderr, stderr)
  }
  const help = await run('show --help')
  assert.match(help.stdout, /Usage: os-node show/)
  assert.match((await run('help')).stdout, /Commands:/)
})

test('S7: no shell syntax is interpreted; unclosed quotes and empty lines are refused', async () => {
  const { run } = rig()
  const got = async (command: string): Promise<unknown> =>
    JSON.parse((await run(`show --json --text ${command}`)).stdout).got.text
  for (const [command, text] of [
    ["'$(id)'", '$(id)'],
    ['$HOME', '$HOME'],
    ['`id`', '`id`'],
    ['a;id', 'a;id'],
    ['"a | b > c & d"', 'a | b > c & d'],
    ['"\\"\\\\\\n"', '"\\\\n'],
    ['\'a\'"b"c\\ d', 'abc d'],
    ['*', '*'],
  ] as const)
    assert.equal(await got(command), text, command)
  assert.equal((await run('show; id')).status, 'failed')
  assert.equal((await run('show | sh')).status, 'failed')
  for (const command of ['', '   ', 'os-node', 'show "x', "show 'x", 'show \\', 'x'.repeat(70_000)])
    await assert.rejects(run(command), { code: 'BAD_REQUEST' }, command.slice(0, 20))
})

test('S7: a caller cannot make a command read a file of this machine', async () => {
  const { run } = rig()
  const { status, exit_code, stdout, stderr } = await run('open --file /etc/passwd')
  assert.deepEqual([status, exit_code, stdout], ['completed', 2, ''])
  assert.match(stderr, /a gateway reads no files for a command/)
})

test('S7: every command leaves a log line with user, address and command, without secrets and without forged lines', async () => {
  const { run, lines } = rig()
  await run('show --api-key hunter2 --text "x\ny"')
  await run('show --api-key=hunter2')
  await run('nothing --password=hunter2')
  await run('config-set --key gateway.uplinks.0.password --value hunter2')
  assert.match(lines[0]!, / INFO {2}os-node: ann at ::1: show --api-key \*{8} --text "x\\ny"\n$/)
  assert.equal(lines.length, 4)
  for (const line of lines) {
    assert.ok(!line.includes('hunter2'), line)
    assert.equal(line.split('\n').length, 2)
  }
  assert.equal(auditText(splitCommand('a --key k --value v')), 'a --key k --value v')
  assert.equal(auditText(['a', '\x9b2J', '\x1b \u2028']), 'a ?2J "\\u001b ?"')
  assert.ok(auditText(['a', 'x'.repeat(5000)]).length < 600)
})

test('S7: a command times out, and its slot is free only after it has really ended', async () => {
  const { run, advance, aborted, runner, release } = rig({ foregroundMs: 1000, foregroundJobs: 1 })
  const cut = run('wait')
  await settled()
  await assert.rejects(run('show'), { code: 'TOO_MANY_JOBS' })
  advance(1000)
  const job = await cut
  assert.deepEqual([job.status, job.exit_code, job.stdout], ['failed', 124, 'I wait\n'])
  assert.match(job.stderr, /stopped after 1 s/)
  assert.deepEqual(aborted, ['wait'])
  await settled()
  assert.equal(runner.running, 0)
  assert.equal((await run('show')).status, 'completed')
  assert.equal(runner.counters.refused, 1)
  release.length = 0
})

test('S7: output above the limit is cut off and the command is stopped', async () => {
  const { run, aborted } = rig({ outputChars: 5000 })
  const job = await run('flood')
  assert.deepEqual([job.status, job.truncated, job.stdout.length], ['failed', true, 5000])
  assert.match(job.stderr, /stopped after 5000 characters of output/)
  await settled()
  assert.deepEqual(aborted, ['flood'])
})

test('background jobs are queued, report each change, and can be cancelled while waiting or running', async () => {
  const { run, runner, release, aborted } = rig({ backgroundJobs: 1, queue: 2 })
  const told: string[] = []
  const end = runner.onJob(job => told.push(`${job.command} ${job.status}`))
  const first = await run('wait', { background: true })
  const second = await run('show', { background: true })
  assert.deepEqual([first.status, first.exit_code, first.stdout], ['running', null, ''])
  assert.equal(runner.get(first.job_id, 'admin').stdout, '')
  assert.deepEqual([second.status, second.exit_code, second.stdout, second.started_at], ['queued', null, '', null])
  const third = await run('fail', { background: true })
  await assert.rejects(run('show', { background: true }), { code: 'TOO_MANY_JOBS' })
  assert.equal(runner.queued, 2)
  assert.equal(runner.cancel(third.job_id, 'admin', 'ann').status, 'cancelled')
  await settled()
  release[0]!()
  await settled()
  await settled()
  assert.match(runner.get(first.job_id, 'admin').stdout, /^I wait\n/)
  assert.deepEqual(
    runner.list('admin', 10).map(job => [job.command, job.status, job.exit_code]),
    [
      ['fail', 'cancelled', null],
      ['show', 'completed', 0],
      ['wait', 'completed', 0],
    ],
  )
  const running = await run('wait', { background: true })
  await settled()
  const cancelled = runner.cancel(running.job_id, 'admin', 'bob')
  assert.deepEqual([cancelled.status, cancelled.exit_code], ['cancelled', 130])
  assert.match(cancelled.stderr, /cancelled by bob/)
  assert.deepEqual(aborted, ['wait'])
  // a finished job stays as it is
  assert.equal(runner.cancel(second.job_id, 'admin', 'bob').status, 'completed')
  assert.throws(() => runner.cancel('none', 'admin', 'bob'), { code: 'NOT_FOUND' })
  end()
  assert.deepEqual(told.slice(0, 4), ['wait queued', 'wait running', 'show queued', 'fail queued'])
})

test('a caller that disconnects stops its command; a gateway that stops ends all of them', async () => {
  const { run, runner, aborted } = rig()
  const left = new AbortController()
  const job = run('wait', { signal: left.signal })
  await settled()
  left.abort()
  assert.equal((await job).status, 'cancelled')
  const other = run('wait')
  await settled()
  runner.stop()
  assert.deepEqual([(await other).status, aborted.length], ['failed', 2])
  await assert.rejects(run('show'), { code: 'TOO_MANY_JOBS' })
})

test('an operator runs read-only commands and does not see jobs of admins', async () => {
  const { run, runner, lines } = rig()
  const operator = { role: 'operator', username: 'oli' }
  assert.equal((await run('doctor', operator)).status, 'completed')
  assert.equal((await run('deps --cmd check', operator)).status, 'completed')
  await assert.rejects(run('deps --cmd repair', operator), { code: 'FORBIDDEN' })
  // a command that cannot run does no damage
  assert.equal((await run('nothing', operator)).status, 'failed')
  await assert.rejects(run('change', operator), { code: 'FORBIDDEN', message: 'role admin required' })
  assert.match(lines.at(-1)!, /WARN .*refused, role admin required: oli at ::1: change/)
  const secret = await run('change')
  assert.deepEqual(
    runner.list('operator', 10).map(job => job.command),
    ['nothing', 'deps --cmd check', 'doctor'],
  )
  assert.throws(() => runner.get(secret.job_id, 'operator'), { code: 'NOT_FOUND' })
  assert.throws(() => runner.cancel(secret.job_id, 'operator', 'oli'), { code: 'NOT_FOUND' })
})

test('finished jobs are kept within limits; their output is dropped first', async () => {
  const { run, runner } = rig({ kept: 3, keptChars: 60 })
  const first = await run('show --json')
  for (let k = 0; k < 2; k++) await run('show --json')
  assert.deepEqual(
    runner.list('admin', 10).map(({ stdout, truncated }) => [stdout.length > 0, truncated]),
    [
      [true, false],
      [false, true],
      [false, true],
    ],
  )
  await run('show')
  assert.equal(runner.list('admin', 10).length, 3)
  assert.throws(() => runner.get(first.job_id, 'admin'), { code: 'NOT_FOUND' })
})
