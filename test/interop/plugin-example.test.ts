// The example plugin of docs/plugins.md in a real gateway: its section is in every output although no other code names
// it.
import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freePort, Machine, removeDir, root, script, tempDir, until } from '../lib/gateway'
import { Tty } from '../lib/tty'

const EXAMPLE = join(root, 'docs/examples/garden.mjs')
const dir = tempDir()
let machine: Machine
let port: number
let tty: Tty | undefined

before(async () => {
  const plugins = join(dir, 'plugins')
  mkdirSync(plugins)
  copyFileSync(EXAMPLE, join(plugins, 'garden.mjs'))
  port = await freePort()
  machine = new Machine(join(dir, 'gw'), 'run', {
    device_id: 'pi-garden',
    assigned_id: 7,
    gateway: { uplinks: [], sources: [] },
    plugins: { enabled: true, dir: plugins },
    web_user: { auth_enabled: false },
  })
  await machine.start(['--port', String(port)], port)
  await until('the plugin runs', () => {
    const { items } = machine.json('plugin-list')
    return items.some((item: { name: string; running: boolean }) => item.name === 'garden' && item.running)
  })
  machine.json(
    'transmit',
    '--sensors',
    JSON.stringify([
      ['soil_north', 'OK', 18, '%'],
      ['soil_south', 'OK', 40, '%'],
      ['air', 'OK', 21, 'Cel'],
    ]),
  )
})
after(async () => {
  tty?.close()
  await machine.stop()
  removeDir(dir)
})

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the gateway gives
async function get(path: string): Promise<{ status: number; body: any }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`)
  return { status: response.status, body: await response.json() }
}

test('the file in the documentation is the one that runs', () => {
  const doc = readFileSync(join(root, 'docs/plugins.md'), 'utf8')
  const shown = /## An example[\s\S]*?```js\n([\s\S]*?)```/.exec(doc)?.[1]
  assert.equal(shown?.trimEnd(), readFileSync(EXAMPLE, 'utf8').trimEnd())
})

test('HTTP lists and renders it in every format', async () => {
  const { body } = await get('/api/display/providers')
  const paths = body.metadata.providers.map((provider: { section_path: string }) => provider.section_path)
  assert.ok(paths.includes('garden:beds'))
  // priority 60: after the built-in ones
  assert.ok(paths.indexOf('garden:beds') > paths.indexOf('node_core:db'))
  const rows = await until('rows', async () => {
    const { data } = (await get('/api/display/render/garden:beds')).body
    return data.length === 2 ? data : undefined
  })
  assert.deepEqual(
    rows.map(({ bed, moisture, water }: Record<string, unknown>) => [bed, moisture, water]),
    [
      ['north', 18, 'now'],
      ['south', 40, 'no'],
    ],
  )
  const as = async (format: string): Promise<unknown> =>
    (await get(`/api/display/render/garden:beds?format=${format}`)).body.data
  assert.match(String(await as('html')), /<table class="display">.*<td>north<\/td>/)
  assert.match(String(await as('text')), /^north {8}#### *\.+ 18 % {2}water: now$/m)
  assert.deepEqual(await as('table'), rows)
  assert.deepEqual(await as('tree'), rows)
  assert.deepEqual((await get('/api/display/all')).body.sections['garden:beds'], rows)
  const { dashboard } = (await get('/api/dashboard')).body
  assert.deepEqual(dashboard.display_sections['garden:beds'], rows)
  assert.equal(dashboard.identity.device_id, 'pi-garden')
  assert.deepEqual((await get('/api/dashboard?sections=garden:beds,identity')).body.dashboard['garden:beds'], rows)
  for (const name of ['node_core:identity', 'opensynaptic_core:identity'])
    assert.deepEqual(
      Object.keys((await get(`/api/dashboard?sections=${name}`)).body.dashboard),
      ['service', name, 'timestamp', 'service_config'],
      'a built-in section has the name that providers tell, too',
    )
  assert.equal((await get('/api/display/render/garden:nope')).status, 404)
  assert.equal((await get('/api/display/render/garden:beds?format=pdf')).status, 400)
})

test('the command line and the terminal show it with its own number', async () => {
  const { sections } = machine.json('tui', 'sections', '--category', 'garden')
  assert.deepEqual(
    sections.map((section: { name: string }) => section.name),
    ['garden:beds'],
  )
  assert.match(machine.run('tui', 'render', 'garden:beds', '--format', 'text').stdout, /south .* 40 % {2}water: no/)
  assert.deepEqual(machine.json('plugin-cmd', 'garden', 'dry').dry, ['north'])

  const command = [process.execPath, script, 'tui', '--config', machine.config, '--data-dir', machine.dataDir]
  tty = new Tty(command, { cwd: machine.dir })
  const screen = await tty.shows('garden:beds')
  const number = / (\d+) garden:beds/.exec(screen)?.[1]
  tty.type(`${number}`)
  await tty.shows(/Garden beds \(garden:beds\)[\s\S]*north +####.* 18 % {2}water: now/)
  // live: new data is on the screen at the section's own interval
  machine.json('transmit', '--sensors', JSON.stringify([['soil_north', 'OK', 55, '%']]))
  tty.type('r')
  await tty.shows(/north .* 55 % {2}water: no/)
  tty.type('q')
  assert.equal((await tty.end()).code, 0)
})

test('a stopped plugin removes its section, and a restarted one adds it again', async () => {
  const act = async (action: string): Promise<number> => {
    const response = await until('an answer', () =>
      fetch(`http://127.0.0.1:${port}/api/plugins`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ plugin: 'garden', action }),
      }),
    )
    return response.status
  }
  const listed = (): unknown[] => machine.json('tui', 'sections', '--category', 'garden').sections
  assert.equal(await act('stop'), 200)
  assert.deepEqual(listed(), [])
  assert.equal((await get('/api/display/render/garden:beds')).status, 404)
  assert.equal(await act('start'), 200)
  assert.equal(listed().length, 1)
})
