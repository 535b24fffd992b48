// watch and demo: rows with changes, a simulated greenhouse that feeds a gateway, a browser that is present or missing.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { openUrl } from '../../../../src/cli/browser'
import { type CommandContext, parseCommand, VERBS } from '../../../../src/commands'
import { greenhouse } from '../../../../src/commands/verbs/demo'
import { ConfigStore } from '../../../../src/config'
import { OsError } from '../../../../src/lib/errors'
import { createLogger } from '../../../../src/lib/logger'
import { until } from '../../../lib/gateway'
import { fake, STATUS } from '../fake'

const root = mkdtempSync(join(tmpdir(), 'os-node-watch-'))
after(() => rmSync(root, { recursive: true, force: true }))
let count = 0

function config(values: object = {}): ConfigStore {
  const cwd = mkdtempSync(join(root, `${count++}-`))
  writeFileSync(join(cwd, 'Config.json'), JSON.stringify(values))
  return ConfigStore.load({ cwd, env: {}, keep: false })
}
const paint = Object.fromEntries(
  ['bold', 'dim', 'good', 'bad', 'warn'].map(how => [how, (text: string) => text]),
) as never

interface Row {
  module: string
  changed: string[] | null
  state: Record<string, unknown>
}

async function rowsOf(context: CommandContext, ...argv: string[]): Promise<AsyncIterator<Row>> {
  const { verb, options } = parseCommand(VERBS, ['watch', '--interval', '0.1', ...argv])
  const { rows } = await verb.run(context, options)
  return (rows as AsyncIterable<Row>)[Symbol.asyncIterator]()
}
const next = async (rows: AsyncIterator<Row>): Promise<Row> => (await rows.next()).value

test('watch: the first row has the complete state, later rows name what changed in the file', async () => {
  const store = config({ device_id: 'a', gateway: { uplinks: [{ name: 'x', medium: 'UDP', password: 'secret' }] } })
  const rows = await rowsOf(fake(store).context, '--module', 'config')
  const first = await next(rows)
  assert.deepEqual([first.module, first.changed, first.state.device_id], ['config', null, 'a'])
  assert.doesNotMatch(JSON.stringify(first), /"secret"/)
  assert.deepEqual((await next(rows)).changed, [])
  writeFileSync(store.path, '{ "device_id": "b" }')
  const third = await next(rows)
  assert.deepEqual(third.changed, ['device_id', 'gateway.uplinks'])
  const { rowText } = parseCommand(VERBS, ['watch', '--module', 'config']).verb
  assert.match(rowText!(third, paint), /^\d\d:\d\d:\d\d device_id = "b"\n.* gateway\.uplinks = \[\]$/)
  assert.match(rowText!({ ...third, changed: null }, paint), /config\n {2}assigned_id = 4294967295\n/)
  assert.equal(rowText!({ ...third, changed: [] }, paint), '')
})

test("watch: with a running gateway each module shows that gateway's counters", async () => {
  const status = { ...STATUS, received: { facts: 1 } }
  const made = fake(config(), { inGateway: true }).context
  const context = { ...made, gateway: { ...made.gateway!, status: () => status } }
  const changed: Record<string, string[] | null> = {}
  for (const module of ['registry', 'transport', 'pipeline']) {
    const rows = await rowsOf(context, '--module', module)
    await next(rows)
    status.received = { facts: status.received.facts + 1 }
    status.links.cloud!.rx++
    changed[module] = (await next(rows)).changed
  }
  assert.deepEqual(changed, {
    registry: ['received.facts'],
    transport: ['links.cloud.rx'],
    pipeline: ['received.facts'],
  })
})

test('watch ends after its duration, or immediately when it is stopped', async () => {
  const seen: unknown[] = []
  const { verb, options } = parseCommand(VERBS, [
    'watch',
    '--module',
    'pipeline',
    '--interval',
    '60',
    '--duration',
    '1',
  ])
  const { rows } = await verb.run(fake(config()).context, options)
  for await (const row of rows!) seen.push(row)
  assert.equal(seen.length, 2)
  const stop = new AbortController()
  const endless = await rowsOf(
    fake(config(), { signal: stop.signal }).context,
    '--module',
    'pipeline',
    '--interval',
    '60',
  )
  await next(endless)
  const waiting = endless.next()
  stop.abort()
  assert.equal((await waiting).done, true)
  assert.throws(() => parseCommand(VERBS, ['watch', '--module', 'weather']), { code: 'USAGE' })
})

test('the greenhouse is warm at noon, damp at night, and alarms when it is hot', () => {
  const at = (s: number) => Object.fromEntries(greenhouse(s).map(([id, status, value]) => [id, { status, value }]))
  const [noon, night] = [at(150), at(450)]
  assert.ok(Number(noon.air!.value) > 27 && Number(night.air!.value) < 15)
  assert.ok(Number(noon.humidity!.value) < Number(night.humidity!.value))
  assert.deepEqual([noon.vent!.value, night.vent!.value, night.light!.value], [1, 0, 0])
  const statuses = new Set(Array.from({ length: 600 }, (_, s) => at(s).air!.status))
  assert.deepEqual([...statuses].sort(), ['ALARM', 'OK'])
})

test('demo feeds the gateway it started, opens the page, and reports a missing browser', async () => {
  const lines: string[] = []
  const submitted: unknown[] = []
  let stop = (): void => undefined
  const done = new Promise<number>(resolve => {
    stop = () => resolve(0)
  })
  const opened: string[] = []
  const { context, calls, printed } = fake(config(), {
    logger: createLogger({ write: line => lines.push(line) }),
    openUrl: async url => {
      opened.push(url)
      return false
    },
    startGateway: async (role, overrides) => {
      calls.push(['startGateway', role, overrides])
      return {
        done,
        stop,
        info: { url: 'http://h:1', login_url: 'http://h:1/#/?token=t' },
        banner: 'look at it',
        transmit: async request => {
          submitted.push(request)
          if (submitted.length === 1) throw new OsError('NO_ASSIGNED_ID', 'not yet')
          if (submitted.length === 2) throw new OsError('STORAGE', 'disk is full')
          stop()
          return {
            packet: new Uint8Array(),
            assigned_id: 1,
            strategy: '',
            sent: true,
            dispatch_path: 'driver',
            rejected: [],
          }
        },
      }
    },
  })
  const { verb, options } = parseCommand(VERBS, ['demo', '--open-browser', '--interval', '0.1', '--web-port', '9'])
  assert.deepEqual(await verb.run(context, options), { exitCode: 0 })
  assert.deepEqual(calls, [['startGateway', 'run', { host: '127.0.0.1', webPort: 9 }]])
  assert.deepEqual(opened, ['http://h:1/#/?token=t'])
  assert.match(lines.join(''), /no browser could be started; open the sign-in link above[\s\S]*demo: disk is full/)
  assert.doesNotMatch(lines.join(''), /not yet/)
  assert.match(printed.join('\n'), /"role":"demo"[\s\S]*look at it/)
  assert.equal((submitted[0] as { device_id: string }).device_id, 'greenhouse')
})

test('demo uses its own temporary folder with a valid configuration, and removes it', () => {
  const { verb } = parseCommand(VERBS, ['demo'])
  const place = verb.place!()
  const store = ConfigStore.load({ path: place.config, dataDir: place.dataDir, env: {}, cwd: root, keep: false })
  assert.equal(store.get('device_id'), 'demo')
  place.remove()
  assert.ok(!existsSync(dirname(place.config)))
})

test('a link is opened by the first installed program; without a display no program is started', async () => {
  const [program, seen] = [join(root, 'browser'), join(root, 'seen')]
  writeFileSync(program, `#!/bin/sh\nprintf %s "$1" > ${seen}\n`, { mode: 0o755 })
  assert.equal(await openUrl('http://h/#a b;c', { platform: 'linux', env: { BROWSER: program } }), true)
  await until('the program ran', () => existsSync(seen) && readFileSync(seen, 'utf8') !== '')
  assert.equal(readFileSync(seen, 'utf8'), 'http://h/#a b;c')
  assert.equal(await openUrl('http://h/', { platform: 'linux', env: {} }), false)
})
