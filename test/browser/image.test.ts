// Settings of the SD image on the page: its versions, an update, and the Wi-Fi. The result is read from the files that the system reads.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, test } from 'node:test'
import type { Page } from 'playwright-core'
import { shoot, type Tab, World } from '../lib/browser'
import { removeDir, until } from '../lib/gateway'

let world: World
let tab: Tab
let page: Page
// the files of the SD image (src/web/system-update.ts, system-wifi.ts)
const image = mkdtempSync(join(tmpdir(), 'os-node-slots-'))
process.env.OS_NODE_SLOTS = join(image, 'slots.json')
process.env.OS_NODE_UPDATE_REQUEST = join(image, 'request')
process.env.OS_NODE_UPDATE_UPLOAD = join(image, 'upload')
process.env.OS_NODE_WIFI_REQUEST = join(image, 'wifi')
process.env.OS_NODE_WIFI_PROBLEM = join(image, 'problem')
writeFileSync(process.env.OS_NODE_SLOTS, '{"ok":true,"board":"rpi-4","slots":[]}')
before(async () => {
  world = await World.start()
  tab = await world.tab()
  page = tab.page
})
after(async () => {
  await world?.stop()
  removeDir(image)
})
beforeEach(async () => {
  if (page) await page.goto(`${world.url}/#/settings`)
})

const said = (text: string | RegExp): Promise<void> =>
  page.getByRole('status').filter({ hasText: text }).first().waitFor()

test('versions of the SD image: slots and the last update are shown, and a new one is requested', async () => {
  const slots = [
    { slot: 'A', version: '0.1.0', running: true, state: 'active' },
    { slot: 'B', version: null, running: false, state: 'empty' },
  ]
  const last_update = { version: '0.2.0', from: '0.1.0', outcome: 'rolled back', reason: 'it did not become healthy' }
  // the page polls at any time: it never sees half a file, as on a board
  const write = (more: object) => {
    const to = process.env.OS_NODE_SLOTS!
    writeFileSync(`${to}.new`, JSON.stringify({ ok: true, board: 'rpi-4', slots, last_update, ...more }))
    renameSync(`${to}.new`, to)
  }
  write({ problem: 'the update is for cm4, this board is rpi-4' })
  const card = page.getByRole('region', { name: 'Versions' })
  await card.getByText('running, active').waitFor()
  await card.getByText('Last update: 0.1.0 → 0.2.0, rolled back: it did not become healthy').waitFor()
  await card.getByText('Not installed: the update is for cm4, this board is rpi-4').waitFor()
  await card.getByLabel('Address of an update').fill('https://example.org/x.update')
  await card.getByRole('button', { name: 'Install' }).click()
  await said('The update is fetched')
  await until('the request', () => existsSync(process.env.OS_NODE_UPDATE_REQUEST!))
  assert.equal(readFileSync(process.env.OS_NODE_UPDATE_REQUEST!, 'utf8'), 'https://example.org/x.update')

  rmSync(process.env.OS_NODE_UPDATE_REQUEST!)
  const bytes = randomBytes(1_300_000)
  await card.getByLabel('Update file').setInputFiles({ name: 'x.update', mimeType: '', buffer: bytes })
  assert.equal(await card.getByLabel('Address of an update').isDisabled(), true)
  await card.getByRole('button', { name: 'Install' }).click()
  await said('The update is uploaded')
  assert.equal(readFileSync(process.env.OS_NODE_UPDATE_REQUEST!, 'utf8'), process.env.OS_NODE_UPDATE_UPLOAD)
  assert.deepEqual(readFileSync(process.env.OS_NODE_UPDATE_UPLOAD!), bytes)
  write({ progress: { step: 'write', done: 0.4, fetched_bytes: 1 } })
  await card.getByText('Installing: write 40 %').waitFor()
  assert.equal(await card.getByRole('button', { name: 'Install' }).isDisabled(), true)
  await shoot(page, 'versions-desktop-light', false)
  tab.clean()
})

test('the Wi-Fi of the SD image is set; the page asks before the board restarts, and shows why it was not stored', async () => {
  const card = page.getByRole('region', { name: 'Wi-Fi' })
  await card.getByLabel('Name of the Wi-Fi').fill('Garden')
  await card.getByLabel('Password of the Wi-Fi').fill('long enough')
  await shoot(page, 'wifi-desktop-light', false)
  await card.getByRole('button', { name: 'Join' }).click()
  await page.getByRole('dialog').getByText('The board restarts.').waitFor()
  assert.ok(!existsSync(process.env.OS_NODE_WIFI_REQUEST!))
  await page.getByRole('button', { name: 'Restart' }).click()
  await said('The board restarts and joins Garden')
  const request = readFileSync(process.env.OS_NODE_WIFI_REQUEST!, 'utf8')
  assert.equal(request, 'wifi_ssid=Garden\nwifi_password=long enough\n')
  assert.equal(await card.getByLabel('Password of the Wi-Fi').inputValue(), '')
  writeFileSync(process.env.OS_NODE_WIFI_PROBLEM!, 'the start partition is full\n')
  await card.getByText('Not stored: the start partition is full').waitFor()
  rmSync(process.env.OS_NODE_WIFI_PROBLEM!)
  tab.clean()
})
