// A backup by the page in a real Chromium: downloaded, and restored after a change; the gateway stops, and starts with the old state.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { shoot, type Tab, World } from '../lib/browser'
import { until } from '../lib/gateway'

let world: World
let tab: Tab
before(async () => {
  world = await World.start()
  tab = await world.tab()
})
after(() => world?.stop())

const precision = async (): Promise<number> => (await world.ask('/api/config?key=engine_settings.precision')).value
const said = (text: string | RegExp): Promise<void> =>
  tab.page.getByRole('status').filter({ hasText: text }).first().waitFor()

test('a backup is downloaded with its secrets, refused when it is damaged, and restored', async () => {
  const { page } = tab
  await page.goto(`${world.url}/#/settings`)
  const before = await precision()
  await page.getByLabel('Passphrase').fill('correct horse')
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download backup' }).click(),
  ])
  assert.equal(download.suggestedFilename(), 'PUMPHOUSE-7.backup')
  const file = join(world.dir, 'PUMPHOUSE-7.backup')
  await download.saveAs(file)
  await said('The backup is downloaded')
  assert.match(readFileSync(file, 'latin1'), /^os-node backup 1\n/)
  const put = { key: 'engine_settings.precision', value: before + 1, value_type: 'int' }
  assert.equal((await world.ask('/api/config', { method: 'PUT', body: JSON.stringify(put) })).ok, true)

  const restore = async (path: string): Promise<void> => {
    await page.getByLabel('Backup file').setInputFiles(path)
    await page.getByRole('button', { name: 'Restore', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await shoot(page, 'restore-desktop-light', false)
    await dialog.getByRole('button', { name: 'Restore', exact: true }).click()
  }
  const cut = join(world.dir, 'cut.backup')
  writeFileSync(cut, readFileSync(file).subarray(0, -50))
  await restore(cut)
  await page
    .getByText(/cut short at byte/)
    .first()
    .waitFor()
  assert.equal(await precision(), before + 1)
  tab.clean(/^400 POST \/api\/restore/)

  await restore(file)
  await said('The backup is restored')
  await until('the gateway has stopped', () => world.gateway.ended !== undefined)
  await world.startGateway()
  // its token is in the backup, too
  assert.equal(await precision(), before)
})
