// Metrics, log, plugins, sections, commands and dashboard as the API returns them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { GatewayStatus } from '../../../src/gateway/status'
import { status } from './helper'
import { world } from './world'

test('metrics are Prometheus text: every sample has its help and type before it, labels are escaped', async t => {
  const hostile = 'a"b\\c\nd'
  const w = await world(t, {
    context: {
      status: () =>
        ({
          ...status(),
          links: { [hostile]: { ...status().links.up1!, kind: 'medium', type: 'UDP' } },
        }) as GatewayStatus,
    },
  })
  await w.send('GET', '/nothing')
  const { text, headers } = await w.send('GET', '/metrics')
  assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
  const known = new Map<string, string>()
  const samples = new Map<string, number>()
  for (const line of text.trimEnd().split('\n')) {
    const head = /^# (HELP|TYPE) (os_node_[a-z_0-9]+) (.+)$/.exec(line)
    if (head) {
      if (head[1] === 'TYPE') known.set(head[2]!, head[3]!)
      continue
    }
    const sample = /^(os_node_[a-z_0-9]+)(\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+\})? (-?[0-9.e+]+)$/.exec(line)
    assert.ok(sample, line)
    assert.ok(known.has(sample[1]!), line)
    assert.equal(known.get(sample[1]!) === 'counter', sample[1]!.endsWith('_total'), line)
    assert.ok(!samples.has(sample[1]! + (sample[2] ?? '')), `twice: ${line}`)
    samples.set(sample[1]! + (sample[2] ?? ''), Number(sample[3]))
  }
  assert.equal(samples.get('os_node_link_up{link="a\\"b\\\\c\\nd",kind="medium",type="UDP"}'), 1)
  assert.equal(samples.get('os_node_uplink_backlog{uplink="up1"}'), 10)
  assert.equal(samples.get('os_node_storage_missed_total'), 3)
  assert.deepEqual(
    [
      samples.get('os_node_uplink_acknowledged_total{uplink="up1"}'),
      samples.get('os_node_uplink_sent_total{uplink="up1"}'),
    ],
    [79, 3],
  )
  assert.equal(samples.get('os_node_http_responses_total{class="4xx"}'), 1)
  const classes = [...samples.keys()].filter(name => name.startsWith('os_node_http_responses'))
  assert.ok(classes.length > 0 && classes.every(name => /class="[1-5]xx"/.test(name)), classes.join())
  for (const [name, value] of [
    ['connections', 1],
    ['dropped_connections_total', 0],
    ['cut_connections_total', 0],
    ['event_streams', 0],
    ['sessions', 0],
  ] as const)
    assert.equal(samples.get(`os_node_http_${name}`), value, name)
})

test('the log is returned from its newest lines, oldest of them first', async t => {
  const { send, logger } = await world(t)
  for (let k = 0; k < 5; k++) logger.warn(`line ${k}`)
  const lines = async (query: string): Promise<string[]> =>
    ((await send('GET', `/api/log${query}`)).json.lines as { text: string }[]).map(({ text }) => text)
  assert.deepEqual((await lines('?lines=2')).slice(-2), ['line 3', 'line 4'])
  assert.ok((await lines('')).length >= 5)
  assert.equal((await lines('?lines=0')).length, 1)
})

test('each write leaves a log line with user, address and change', async t => {
  const w = await world(t)
  await w.send('PUT', '/api/config', { engine_settings: { precision: 6 } }, await w.session('admin'))
  await w.send('POST', '/api/plugins', {
    plugin: 'port_forwarder',
    action: 'cmd',
    sub_cmd: 'add',
    args: ['--password', 'hunter2'],
  })
  await w.send('POST', '/users', { username: 'bob', password: 'hunter2' })
  const lines = w.logger.recent().map(({ text }) => text)
  assert.ok(lines.includes('admin at 127.0.0.1: PUT /api/config engine_settings.precision'))
  assert.ok(lines.includes('admin at 127.0.0.1: plugin cmd port_forwarder add --password ********'))
  assert.ok(lines.includes('admin at 127.0.0.1: POST /users'))
  assert.ok(!lines.some(line => line.includes('hunter2')))
})

test('plugins are loaded, started and stopped by operators, enabled and commanded by admins', async t => {
  const w = await world(t)
  const operator = await w.session('operator')
  const post = async (body: object, as?: string): Promise<unknown[]> => {
    const { status: code, json } = await w.send('POST', '/api/plugins', { plugin: 'port_forwarder', ...body }, as)
    return [code, json.error ?? json, ...w.calls.splice(0)]
  }
  const done = (action: string, more: object = {}): object => ({ ok: true, plugin: 'port_forwarder', action, ...more })
  assert.deepEqual(await post({}, operator), [200, done('load'), ['load', 'port_forwarder']])
  for (const action of ['start', 'stop'])
    assert.deepEqual(await post({ action }, operator), [200, done(action), [action, 'port_forwarder']])
  for (const action of ['set_enabled', 'cmd'])
    assert.deepEqual(await post({ action, sub_cmd: 'list' }, operator), [403, 'role admin required'])
  assert.deepEqual(await post({ action: 'set_enabled', enabled: false }), [
    200,
    done('set_enabled', { enabled: false }),
    ['enabled', false, 'port_forwarder'],
  ])
  assert.deepEqual(await post({ action: 'cmd', sub_cmd: 'add', args: ['a b', '--x'] }), [
    200,
    done('cmd', { command: 'add', exit_code: 0, stdout: 'done\n' }),
    ['command', 'port_forwarder', 'add', 'a b', '--x'],
  ])
  assert.deepEqual((await post({ action: 'cmd', sub_cmd: 'add', args: 'a  b' })).at(-1), [
    'command',
    'port_forwarder',
    'add',
    'a',
    'b',
  ])
  const failed = await w.send('POST', '/api/plugins', { plugin: 'port_forwarder', action: 'cmd', sub_cmd: 'bad' })
  assert.deepEqual(
    [failed.status, failed.json.ok, failed.json.exit_code, failed.json.stdout],
    [400, false, 1, 'done\n'],
  )
  for (const [body, error] of [
    [{ plugin: '' }, 'plugin is required'],
    [{ action: 'explode' }, 'action must be one of load, start, stop, cmd, set_enabled'],
    [{ action: 'cmd' }, 'sub_cmd is required'],
    [{ plugin: 'none' }, 'unknown plugin'],
    [{ args: [1] }, 'args must be a list of texts'],
  ] as const)
    assert.deepEqual((await post(body)).slice(0, 2), [400, error])
})

test('sections are rendered in every format; unknown ones are 400 or 404', async t => {
  const { send } = await world(t)
  const render = async (format: string): Promise<unknown> =>
    (await send('GET', `/api/display/render/weather:now?format=${format}`)).json.data
  assert.deepEqual(await render('json'), { sky: '<b>clear</b>', wind: 3 })
  assert.match(String(await render('html')), /&lt;b&gt;clear/)
  assert.equal(typeof (await render('text')), 'string')
  const { json } = await send('GET', '/api/display/all?min_priority=51')
  assert.deepEqual(json.sections, {})
  for (const [path, code] of [
    ['/api/display/render/weather:now?format=pdf', 400],
    ['/api/display/all?format=pdf', 400],
    ['/api/display/render/weather', 404],
    ['/api/display/render/weather:later', 404],
  ] as const)
    assert.equal((await send('GET', path)).status, code, path)
})

test('commands over HTTP: run, read later, cancelled; a failing one is still 200', async t => {
  const { send } = await world(t)
  const run = await send('POST', '/api/oscli/execute', { command: 'decode --hex zz' })
  assert.deepEqual([run.status, run.json.ok, run.json.status], [200, true, 'completed'])
  assert.notEqual(run.json.exit_code, 0)
  const queued = await send('POST', '/api/oscli/execute', { command: 'status', background: true })
  assert.ok(['queued', 'running'].includes(String(queued.json.status)))
  const id = String(queued.json.job_id)
  for (let job = queued.json; job.status !== 'completed'; ) {
    job = (await send('GET', `/api/oscli/jobs?id=${id}`)).json.job as Record<string, unknown>
    assert.equal(job.job_id, id)
  }
  const { jobs } = (await send('GET', '/api/oscli/jobs?limit=1')).json as { jobs: { job_id: string }[] }
  assert.deepEqual(
    jobs.map(job => job.job_id),
    [id],
  )
  const over = await send('POST', '/api/oscli/cancel', { job_id: id })
  assert.equal((over.json.job as { status: string }).status, 'completed')
  for (const [method, path, body, code, error] of [
    ['POST', '/api/oscli/execute', { command: '' }, 400, 'empty command'],
    ['POST', '/api/oscli/execute', {}, 400, 'command must be a text'],
    ['POST', '/api/oscli/execute', { command: 'status "' }, 400, 'the command has an open "'],
    ['POST', '/api/oscli/execute', { command: 'status', background: 1 }, 400, 'background must be true or false'],
    ['POST', '/api/oscli/cancel', { job_id: 'x' }, 404, 'job not found'],
    ['GET', '/api/oscli/jobs?id=x', undefined, 404, 'job not found'],
  ] as const) {
    const { status: got, json } = await send(method, path, body)
    assert.deepEqual([got, json.error], [code, error])
  }
  const help = String((await send('POST', '/api/oscli/execute', { command: 'help' })).json.stdout)
  const short = (await send('GET', '/api/oscli/jobs?limit=1')).json.jobs as { stdout: string; truncated: boolean }[]
  assert.deepEqual([short[0]!.stdout, short[0]!.truncated], [help.slice(0, 400), true])
  const full = (await send('GET', '/api/oscli/jobs?limit=1&include_output=1')).json.jobs as { stdout: string }[]
  assert.equal(full[0]!.stdout, help)
})

test('the dashboard shows commands only to users who may see them', async t => {
  const w = await world(t)
  await w.send('POST', '/api/oscli/execute', { command: 'status' })
  const recent = async (as?: string): Promise<unknown[]> => {
    const { json } = await w.send('GET', '/api/dashboard?sections=overview_metrics', undefined, as)
    return (json.dashboard as { overview_metrics: { jobs: { recent: unknown[] } } }).overview_metrics.jobs.recent
  }
  assert.equal((await recent()).length, 1)
  assert.equal((await recent(await w.session('viewer'))).length, 0)
})
