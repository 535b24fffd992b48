// Views and forms: packets, decoding, histories, the console, the log, sections.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { after, before, beforeEach, test } from 'node:test'
import type { Page } from 'playwright-core'
import { PHONE, shoot, type Tab, World } from '../lib/browser'
import { until } from '../lib/gateway'

/** a FULL packet of TANK-3, AID 52: level 41.5 %, pressure 1.13 bar */
const FULL =
  '3f01000000340101a1ff1a062135323b54414e4b2d332e312e4161485f476759687c6c6576656c3e4b2e4330303a314a58797c70' +
  '726573737572653e4b2e50613a3165746d43737c986852'

let world: World
let tab: Tab
let page: Page
before(async () => {
  world = await World.start()
  await world.packets(6)
  tab = await world.tab()
  page = tab.page
})
after(() => world?.stop())
beforeEach(async () => {
  if (page) await page.goto(`${world.url}/#/overview`)
})

const open = async (at: string): Promise<void> => {
  await page.goto(`${world.url}/#/${at}`)
}
const said = (text: string | RegExp): Promise<void> =>
  page.getByRole('status').filter({ hasText: text }).first().waitFor()

test('packets are found by device, status and time; one opens with its readings', async () => {
  await open('packets')
  await page.getByText('Filter').click()
  await page.getByLabel('Device', { exact: true }).fill('TANK-3')
  await page.getByLabel('From').fill('2020-01-01T00:00')
  await page.getByRole('button', { name: 'Show' }).click()
  await page.waitForURL(/device_id=TANK-3/)
  await page.getByText('1 in all').waitFor()
  assert.equal(await page.locator('tbody tr').count(), 1)
  await page.getByLabel('Until').fill('2020-01-02T00:00')
  await page.getByRole('button', { name: 'Show' }).click()
  await page.getByText('No matching packets').waitFor()
  await page.getByRole('link', { name: 'Clear' }).click()
  await page.locator('tbody tr').nth(3).waitFor()

  await open('packets?device_id=TANK-3')
  await page.locator('tbody tr a').first().click()
  await page.getByRole('heading', { name: 'Packet of TANK-3' }).waitFor()
  const level = page.getByRole('row', { name: /level/ })
  assert.match((await level.textContent()) ?? '', /41\.5 %/)
  await shoot(page, 'packet-desktop-light')
  tab.clean()
})

test('on a phone long names leave the adjacent times complete', async () => {
  const name = 'a device in the pump house behind the old mill, second floor, third door on the left hand side'
  const sent = world.field.run('transmit', '--device-id', name, '--sensor-id', 'a', '--value', '1', '--unit', 'V')
  assert.equal(sent.code, 0, sent.stderr)
  const phone = await world.tab({ size: PHONE })
  for (const view of ['packets', 'devices']) {
    await phone.page.goto(`${world.url}/#/${view}`)
    // both at one moment: column widths change when values arrive
    const row = phone.page.getByRole('row').filter({ hasText: name }).first()
    const [left, right] = await row.evaluate(tr =>
      [...tr.querySelectorAll('td')].map(td => {
        const { left, right } = td.getBoundingClientRect()
        return { left, right }
      }),
    )
    assert.ok(left!.right <= right!.left, view)
    assert.ok(right!.right <= PHONE.width, view)
  }
  await shoot(phone.page, 'long-names-phone-light', false)
  phone.clean()
  await phone.context.close()
})

test('older pages of packets are opened and left again', async () => {
  await world.packets(30)
  await open('packets')
  await page.getByRole('link', { name: 'Older →' }).click()
  await page.waitForURL(/offset=25/)
  await page.getByText(/^26 to/).waitFor()
  await page.getByRole('link', { name: '← Newer' }).click()
  await page.getByText(/^1 to 25/).waitFor()
  tab.clean()
})

test('a packet in hex shows fields immediately, and values after the gateway decoded it; damage is reported', async () => {
  await open('packets/decode')
  const hex = page.getByLabel('Packet in hex')
  await hex.fill('3f 0')
  await page.getByText('Enter pairs of hex digits.').waitFor()
  await hex.fill(FULL)
  await page.getByRole('cell', { name: '0x6852 fits' }).waitFor()
  await page.getByRole('button', { name: /^AID/ }).focus()
  assert.equal(await page.locator('tr[data-here=true] th').textContent(), 'AID')
  await page.getByRole('button', { name: 'Decode' }).click()
  await page.getByText('41.5 %').first().waitFor()
  await page.getByText('1130 hPa').first().waitFor()
  await shoot(page, 'decode-used-desktop-light')
  await hex.fill(FULL.replace('3f01', '3f01').replace('0034', '0035'))
  await page.getByText('The packet is damaged: CRC-16 does not match.').waitFor()
  tab.clean()
})

test('the history of a sensor has a plot in every range', async () => {
  await open('readings')
  await page.getByRole('link', { name: /cpu_busy/ }).click()
  for (const range of ['1 h', '6 h', '24 h', '7 d', '10 min']) {
    const button = page.getByRole('button', { name: range, exact: true })
    await button.click()
    await until('it is chosen', async () => (await button.getAttribute('aria-pressed')) === 'true')
    await page.getByText(/stored values/).waitFor()
    await page.getByRole('img', { name: /cpu_busy over the last/ }).waitFor()
  }
  await page.getByRole('link', { name: '← All readings' }).click()
  await page.getByRole('heading', { name: 'TANK-3' }).waitFor()
  tab.clean()
})

test('plot and statistics cover all values of a range, in one request; the axis has the unit', async () => {
  const asked: URL[] = []
  // the axes are drawn
  await page.evaluate(`(() => {
    const { fillText } = CanvasRenderingContext2D.prototype
    globalThis.drawn = new Set()
    CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
      drawn.add(text)
      fillText.call(this, text, ...at)
    }
  })()`)
  await page.route('**/api/data/history*', async route => {
    const url = new URL(route.request().url())
    asked.push(url)
    const [since, until, count] = ['since', 'until', 'buckets'].map(key => Number(url.searchParams.get(key)))
    const buckets = Array.from({ length: count! }, (_, k) => ({
      t: Math.round(since! + (k * (until! - since!)) / count!),
      count: k > 100 && k < 140 ? 0 : 144,
      ...(k > 100 && k < 140 ? { min: null, mean: null, max: null } : { min: 20, mean: 20.5 + k / 1000, max: 20.9 }),
    }))
    Object.assign(buckets[17]!, { min: 4, max: 4321 })
    await route.fulfill({ json: { ok: true, buckets, since, until, units: ['%'] } })
  })
  await open('readings/PUMPHOUSE-7/cpu_busy')
  await page.getByText('37,584 stored values').waitFor()
  const tile = (name: string) => page.locator('dl.tiles div', { hasText: name }).locator('dd')
  assert.match((await tile('Max').textContent())!, /^4321/)
  assert.match((await tile('Min').textContent())!, /^4/)
  const texts = (await page.evaluate('[...drawn]')) as string[]
  assert.ok(texts.includes('%') && texts.includes('2,000'), texts.join(' '))
  // again where the gateway was away for a moment, or the range moved on
  const bounds = new Set(asked.map(url => url.search))
  assert.equal(bounds.size, asked.length)
  await shoot(page, 'history-band-desktop-light')
  await page.unroute('**/api/data/history*')
  tab.clean()
})

test('new readings appear automatically', async () => {
  await open('readings/TANK-3')
  await page.getByText('41.5 %').first().waitFor()
  await page.locator('.connection[title=events]').waitFor()
  world.send(43.25, 1.2)
  await page.getByText('43.25 %').first().waitFor()
  tab.clean()
})

test('with very many devices the first are shown, and any is found by its name or a sensor of it', async () => {
  const many = await world.tab()
  await many.page.route('**/api/events*', route =>
    route.fulfill({ status: 404, json: { ok: false, error: 'not found', code: 'NOT_FOUND' } }),
  )
  const { dashboard } = await world.ask('/api/dashboard?sections=status')
  const latest = Array.from({ length: 1000 }, (_, k) => ({
    device_id: `NODE-${String(k).padStart(4, '0')}`,
    t_raw: Date.now(),
    medium: 'UDP',
    source_aid: k + 1,
    sensors: ['t', 'h', 'p', k === 777 ? 'leak' : 'v'].map(id => ({ id, status: 'OK', unit: '%', value: k % 100 })),
  }))
  await many.page.route('**/api/dashboard*', route =>
    route.fulfill({ json: { ok: true, dashboard: { ...dashboard, latest } } }),
  )
  await many.page.goto(`${world.url}/#/readings`)
  await many.page.getByText('960 more devices').waitFor()
  const search = many.page.getByLabel('Find a device or sensor')
  await search.fill('leak')
  await many.page.getByRole('heading', { name: 'NODE-0777' }).waitFor()
  assert.equal(await many.page.getByRole('heading', { level: 2 }).count(), 1)
  await search.fill('node-09 t')
  await many.page.getByText('60 more devices').waitFor()
  await search.fill('nowhere')
  await many.page.getByText('No matching devices').waitFor()
  assert.deepEqual(many.problems.console, [])
  await many.context.close()
})

test('without events new readings appear with the next poll', async () => {
  const quiet = await world.tab()
  await quiet.page.route('**/api/events*', route =>
    route.fulfill({ status: 404, json: { ok: false, error: 'not found', code: 'NOT_FOUND' } }),
  )
  await quiet.page.goto(`${world.url}/#/readings/TANK-3`)
  await quiet.page.getByText('level').waitFor()
  world.send(44.75, 1.2)
  await quiet.page.getByText('44.75').waitFor()
  assert.equal(quiet.problems.answers.length, 1, 'events are requested once')
  await quiet.context.close()
})

test('the console runs commands, shows errors and exit codes, and remembers what was typed', async () => {
  await open('console')
  const command = page.getByLabel('Command', { exact: true })
  const output = page.getByRole('log')
  await command.fill('os-node config-get engine_settings.precision --json')
  await page.keyboard.press('Enter')
  await output.getByText(/"value":\d/).waitFor()
  await command.fill('no-such-command')
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await output.getByText(/exit code 2/).waitFor()
  await command.fill("status 'unbalanced")
  await page.keyboard.press('Enter')
  await output.locator('[data-kind=err]').filter({ hasText: 'has an open' }).waitFor()
  await command.press('ArrowUp')
  await command.press('ArrowUp')
  assert.equal(await command.inputValue(), 'no-such-command')
  await page.getByRole('button', { name: 'help', exact: true }).click()
  assert.equal(await command.inputValue(), 'help')
  await page.keyboard.press('Tab')
  await shoot(page, 'console-used-desktop-light')
  tab.clean(/^400 POST \/api\/oscli\/execute/)
})

test('a background command is in the list of jobs, with its output', async () => {
  await open('console')
  await page.getByLabel('Command', { exact: true }).fill('log verify --json')
  await page.getByLabel('In the background').check()
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByText(/running in the background/).waitFor()
  const job = page.getByRole('listitem').filter({ hasText: 'log verify --json' }).first()
  await job.getByText('completed').waitFor()
  await job.getByRole('button', { name: /^Output/ }).click()
  await page
    .getByRole('log')
    .getByText(/"ok":true/)
    .waitFor()
  tab.clean()
})

test('the log is filtered by level and text and can be paused', async () => {
  await open('log')
  await page.getByText('web page on').waitFor()
  await page.getByRole('button', { name: 'error' }).click()
  await page.getByText('web page on').waitFor({ state: 'hidden' })
  await page.getByRole('button', { name: 'info' }).click()
  await page.getByLabel('Text').fill('web page')
  await page.getByText('web page on').waitFor()
  await page.getByLabel('Text').fill('nothing like it')
  await page.getByText('No matching lines').waitFor()
  await page.getByLabel('Pause').check()
  tab.clean()
})

test('a section of a display provider opens with its data', async () => {
  await open('sections')
  await page.getByText('node_core:identity').click()
  await page.getByText('device_id').waitFor()
  await page.getByText('PUMPHOUSE-7', { exact: true }).last().waitFor()
  await shoot(page, 'section-open-desktop-light')
  // lists of rows are tables; the provider's own text is shown as well
  await page.getByText('node_core:transport').click()
  const links = page.getByRole('table').filter({ has: page.getByRole('columnheader', { name: 'delivery' }) })
  await links.getByRole('cell', { name: 'headquarters' }).waitFor()
  await page.getByRole('group', { name: 'Format of Transport' }).getByRole('button', { name: 'Text' }).click()
  await page
    .locator('pre')
    .getByText(/UDP +L4 +on/)
    .waitFor()
  tab.clean()
})

test('the section of a plugin is among the others: its rows as a table, its own text, its command', async () => {
  const readings = JSON.stringify([['soil_tomato', 'OK', 18, '%']])
  assert.equal(world.field.run('transmit', '--sensors', readings, '--json').code, 0)
  await open('sections')
  await page.getByText('garden:beds').click()
  const beds = page.getByRole('table').filter({ has: page.getByRole('columnheader', { name: 'moisture' }) })
  await beds.getByRole('row', { name: /tomato 18 now/ }).waitFor()
  await page.getByRole('group', { name: 'Format of Garden beds' }).getByRole('button', { name: 'Text' }).click()
  await page
    .locator('pre')
    .getByText(/tomato +#+\.+ 18 %/)
    .waitFor()
  await shoot(page, 'section-plugin-desktop-light')
  await open('switches')
  const row = page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: 'garden' }) })
  await row.getByText('Run a command').click()
  await row.getByLabel('Command of garden').fill('dry')
  await page.keyboard.press('Enter')
  await row.getByText('tomato').waitFor()
  tab.clean()
})

test('a waiting command is cancelled in the list of jobs', async () => {
  // no server answers at this port, so each of these waits, two at a time
  const silent = createSocket('udp4')
  await new Promise<void>(resolve => silent.bind(0, '127.0.0.1', resolve))
  const command = `time-sync --timeout 300 --host 127.0.0.1 --port ${silent.address().port}`
  await open('console')
  for (let k = 0; k < 6; k++)
    await world.ask('/api/oscli/execute', { method: 'POST', body: JSON.stringify({ command, background: true }) })
  const job = page.getByRole('listitem').filter({ hasText: command }).first()
  await job.getByRole('button', { name: /^Cancel/ }).click()
  await said('The job was cancelled')
  await page.getByRole('listitem').filter({ hasText: command }).filter({ hasText: 'cancelled' }).waitFor()
  silent.close()
  tab.clean()
})

test('a stored packet is encoded to bytes again and split into its fields', async () => {
  await open('packets?device_id=TANK-3')
  await page.locator('tbody tr a').first().click()
  await page.getByRole('button', { name: 'Encode packet' }).click()
  await page.getByRole('cell', { name: /DATA_FULL/ }).waitFor()
  await page.getByRole('button', { name: 'Decode' }).click()
  await page.getByText('All fields').waitFor()
  await shoot(page, 'packet-wire-desktop-light')
  tab.clean()
})
