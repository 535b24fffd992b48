// Actions that change the gateway: switches, plugins, settings, users. The result is read from the gateway itself.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, before, beforeEach, test } from 'node:test'
import type { Page } from 'playwright-core'
import { AUDIT } from '../lib/audit'
import { PHONE, shoot, type Tab, World } from '../lib/browser'
import { until } from '../lib/gateway'

let world: World
let tab: Tab
let page: Page
before(async () => {
  world = await World.start()
  await world.packets(6)
  tab = await world.tab()
  page = tab.page
})
after(async () => {
  await world?.stop()
})
beforeEach(async () => {
  if (page) await page.goto(`${world.url}/#/overview`)
})

const open = async (at: string): Promise<void> => {
  await page.goto(`${world.url}/#/${at}`)
}
const said = (text: string | RegExp): Promise<void> =>
  page.getByRole('status').filter({ hasText: text }).first().waitFor()
const config = async (key: string): Promise<unknown> => (await world.ask(`/api/config?key=${key}`)).value

test('a medium is switched on and off; for one in use by links the page asks first', async () => {
  await open('switches')
  const tcp = page.getByRole('switch', { name: 'TCP', exact: true })
  await tcp.click()
  await said('TCP is on')
  assert.equal(await config('RESOURCES.transport_status.tcp'), true)
  await page.getByRole('button', { name: 'Reload TCP' }).click()
  await said(/TCP (was reloaded|could not be loaded)/)
  await tcp.click()
  await said('TCP is off')
  assert.equal(await config('RESOURCES.transport_status.tcp'), false)

  const udp = page.getByRole('switch', { name: 'UDP', exact: true })
  await udp.click()
  await page.getByRole('dialog').getByText('headquarters').waitFor()
  await shoot(page, 'confirm-desktop-light', false)
  await page.getByRole('button', { name: 'Cancel' }).click()
  assert.equal(await udp.getAttribute('aria-checked'), 'true')
  await udp.click()
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  assert.equal(await config('RESOURCES.transport_status.udp'), true)
  tab.clean()
})

test('an output is switched; an unknown state is shown as unknown', async () => {
  // no board here has lines: the test replaces the gateway's answer
  const sent: unknown[] = []
  const items = [
    { source: 'relays', name: 'pump', value: 0 },
    { source: 'relays', name: 'siren', value: null, reason: 'the line is taken' },
  ]
  await page.route('**/api/outputs', async route => {
    if (route.request().method() === 'POST') {
      sent.push(route.request().postDataJSON())
      items[0]!.value = 1
    }
    await route.fulfill({ json: { ok: true, items } })
  })
  await open('switches')
  await page.getByText('relays · state unknown · the line is taken').waitFor()
  const pump = page.getByRole('switch', { name: 'relays.pump' })
  await pump.click()
  await said('relays.pump is on')
  await until('it is on', async () => (await pump.getAttribute('aria-checked')) === 'true')
  assert.deepEqual(sent, [{ name: 'relays.pump', value: 1 }])
  await page.unroute('**/api/outputs')
  tab.clean()
})

test('settings are found, checked while typing, saved together, and those that need a restart are shown', async () => {
  await open('settings')
  await page.getByLabel('Find a setting').fill('engine_settings')
  const precision = page.getByLabel('engine_settings.precision')
  await precision.fill('x')
  await page.getByText('a whole number is needed').waitFor()
  assert.ok(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled())
  await precision.fill('99')
  await page.getByText('at most 10').waitFor()
  await precision.fill('5')
  await page.getByLabel('engine_settings.network_retry.max_retries').fill('3')
  await page.getByRole('switch', { name: 'engine_settings.network_retry.enabled' }).click()
  await page.getByText('3 unsaved changes').waitFor()
  await shoot(page, 'settings-changed-desktop-light')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await said('3 settings saved')
  assert.equal(await config('engine_settings.precision'), 5)
  assert.equal(await config('engine_settings.network_retry.max_retries'), 3)
  assert.equal(await config('engine_settings.network_retry.enabled'), false)

  await page.getByLabel('Find a setting').fill('gateway.log.max_bytes')
  const bytes = page.getByLabel('gateway.log.max_bytes')
  const before = await bytes.inputValue()
  await bytes.fill('12345678')
  await page.getByRole('button', { name: 'Discard' }).click()
  await until('the old value is back', async () => (await bytes.inputValue()) === before)

  await page.getByLabel('Find a setting').fill('web_user.auth_enabled')
  // a search for a setting finds it, also one that cannot be changed here
  const auth = page.locator('[id="option-web_user.auth_enabled"]')
  await auth.waitFor()
  assert.ok(await auth.isDisabled())
  // a type of source leads to the list that contains it, and to its key
  await page.getByLabel('Find a setting').fill('bme280')
  await page.getByLabel('gateway.sources', { exact: true }).waitFor()
  await page.getByText(/^type driver: .*bme280/).waitFor()
  assert.equal(await page.locator('.option').count(), 1)
  await page.getByLabel('Find a setting').fill('xyzzy')
  await page.getByText('No settings match').waitFor()
  await page.getByLabel('Find a setting').fill('')
  await auth.waitFor({ state: 'detached' })
  await page.getByLabel('Show read-only settings').check()
  await auth.waitFor({ state: 'attached' })
  await page.getByLabel('Find a setting').fill('web_user.auth_enabled')
  assert.ok(await page.getByText('needs a restart').first().isVisible())
  tab.clean()
})

test('when the gateway refuses a setting, the input stays and the reason is shown', async () => {
  await open('settings')
  await page.getByLabel('Find a setting').fill('gateway.uplinks')
  const uplinks = page.getByLabel('gateway.uplinks')
  const good = await uplinks.inputValue()
  await uplinks.fill('[{"name":"headquarters"')
  await page.locator('.option .error').waitFor()
  await uplinks.fill('[{"name": 5}]')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await said(/1 refused/)
  await page.locator('.option .error').filter({ hasText: 'gateway.uplinks' }).waitFor()
  assert.equal(await uplinks.inputValue(), '[{"name": 5}]')
  await uplinks.fill(good)
  await page.getByText('unsaved').waitFor({ state: 'hidden' })
  tab.clean()
})

test('after saving, a setting that applies from the next start says so', async () => {
  const { schema } = await world.ask('/api/options/schema?only_writable=1')
  type Row = { key: string; type: string; restart: boolean; value: unknown }
  const rows: Row[] = schema.categories.flatMap((category: { fields: Row[] }) => category.fields)
  const row = rows.find(({ type, restart }) => restart && type === 'bool')
  assert.ok(row, 'no switch that needs a restart')
  await open('settings')
  await page.getByLabel('Find a setting').fill(row.key)
  await page.getByRole('switch', { name: row.key, exact: true }).click()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText(`These settings take effect after a restart: ${row.key}`).waitFor()
  assert.equal(await config(row.key), !row.value)
  tab.clean()
})

test('a hand-edited configuration file is reloaded on request; a broken one is reported', async () => {
  await open('settings')
  const text = readFileSync(world.gateway.config, 'utf8')
  writeFileSync(
    world.gateway.config,
    text.replace('"PUMPHOUSE-7"', '"PUMPHOUSE-7", "Client_Core": {"server_port": 9999}'),
  )
  await page.getByRole('button', { name: 'Reload Config.json' }).click()
  await said('Config.json reloaded')
  assert.equal(await config('Client_Core.server_port'), 9999)
  writeFileSync(world.gateway.config, '{ broken')
  await page.getByRole('button', { name: 'Reload Config.json' }).click()
  await said(/Config.json was not reloaded/)
  writeFileSync(world.gateway.config, text)
  await page.getByRole('button', { name: 'Reload Config.json' }).click()
  await said('Config.json reloaded')
  tab.clean(/^\d+ POST \/api\/reload/)
})

test('the appearance is saved for everybody, the colours for this browser', async () => {
  await open('settings')
  await page.getByLabel('Refresh interval (s)').fill('3')
  await page.getByLabel('Compact', { exact: true }).check()
  await page.getByLabel('Readings layout').selectOption('list')
  await page.getByRole('button', { name: 'Save for all users' }).click()
  await said('Page settings saved')
  assert.deepEqual([await config('web_user.ui.ui_refresh_seconds'), await config('web_user.ui.ui_compact')], [3, true])
  await until('it is closer together', () => page.evaluate("document.documentElement.dataset.compact === 'true'"))
  await open('readings')
  await page.getByRole('cell', { name: 'cpu_busy' }).waitFor()
  await shoot(page, 'readings-list-desktop-light')
  await open('settings')
  await page.getByRole('button', { name: 'Dark', exact: true }).click()
  await until('it is dark', () => page.evaluate("document.documentElement.dataset.theme === 'dark'"))
  await page.reload()
  await page.getByText('This page').waitFor()
  await until('it is dark', () => page.evaluate("document.documentElement.dataset.theme === 'dark'"))
  await page.getByRole('button', { name: /^Theme: dark/ }).click()
  await until('it is light', () => page.evaluate("document.documentElement.dataset.theme === 'light'"))
  tab.clean()
})

/** The focused element, by its accessible name. */
const focused = (): Promise<unknown> =>
  page.evaluate("(e => e.getAttribute('aria-label') || e.id || e.tagName)(document.activeElement)")

test('the keyboard focus stays in place after an action, a dialog, and a closed form', async () => {
  await open('switches')
  const stays = async (name: string, key: string, done: () => Promise<void>): Promise<void> => {
    // a control is disabled until the list is read again
    await until(`${name} takes the focus`, async () => {
      await page.getByLabel(name, { exact: true }).focus()
      return (await focused()) === name
    })
    await page.keyboard.press(key)
    await done()
    await until(`${name} has the focus`, async () => (await focused()) === name)
  }
  await stays('TCP', 'Space', () => said('TCP is on'))
  await stays('Reload TCP', 'Enter', () => said(/TCP (was reloaded|could not be loaded)/))
  await stays('TCP', 'Space', () => said('TCP is off'))
  await stays('UDP', 'Space', async () => {
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
  })
  await page.getByRole('button', { name: 'Stop env_guard' }).focus()
  await page.keyboard.press('Enter')
  await said('env_guard was stopped')
  await until('the same button starts it', async () => (await focused()) === 'Start env_guard')
  await page.keyboard.press('Enter')
  await said('env_guard was started')

  await open('users')
  await page.getByLabel('Name').fill('tabea')
  await page.keyboard.press('Enter')
  await said('tabea was added')
  await until('the field has the focus', async () => (await focused()) === 'new-username')
  await page.getByRole('button', { name: 'Password of tabea' }).focus()
  await page.keyboard.press('Enter')
  await until('its field has the focus', async () => (await focused()) === 'password-tabea')
  await page.keyboard.type('a word that is long')
  await page.keyboard.press('Enter')
  await said('tabea has a new password')
  await until('a button of the user has the focus', () =>
    page.evaluate("document.activeElement.textContent === 'Remove tabea'"),
  )
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await said('tabea was removed')
  await until('the heading has the focus', () => page.evaluate("document.activeElement.tagName === 'H1'"))

  // tabbing on to the browser's own controls (here there are none: the same steps) leaves the page, whatever is redrawn
  // meanwhile
  await page.getByRole('button', { name: 'Add', exact: true }).focus()
  await page.evaluate(`document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Tab', bubbles: true }))
    document.activeElement.blur()
    document.querySelector('main').append(document.createElement('p'))`)
  assert.equal(await focused(), 'BODY')
  tab.clean()
})

test('typed settings survive a visit to another view', async () => {
  await open('settings')
  await page.getByLabel('Find a setting').fill('engine_settings.precision')
  const precision = page.getByLabel('engine_settings.precision')
  const before = await precision.inputValue()
  await precision.fill('7')
  await page.getByRole('link', { name: 'Readings' }).click()
  await page.getByRole('heading', { level: 1, name: 'Readings' }).waitFor()
  await page.getByRole('link', { name: 'Settings' }).click()
  await page.getByText('1 unsaved change').waitFor()
  assert.equal(await precision.inputValue(), '7')
  await page.getByRole('button', { name: 'Discard' }).click()
  await until('the old value is back', async () => (await precision.inputValue()) === before)
  tab.clean()
})

test('users are added, changed, get a password and are removed', async () => {
  await open('users')
  const add = page.getByRole('button', { name: 'Add', exact: true })
  await page.getByLabel('Name').fill('erika')
  await page.getByLabel('Password', { exact: true }).fill('correct horse battery')
  await add.click()
  await said('erika was added')
  await page.getByLabel('Name').fill('erika')
  await add.click()
  await page.getByText('user already exists').waitFor()
  await page.getByLabel('Role of erika').selectOption('operator')
  await said('erika is operator now')
  await page.getByRole('switch', { name: 'erika may sign in' }).click()
  await said('erika may not sign in now')
  await page.getByRole('button', { name: 'Password of erika' }).click()
  await page.getByLabel('New password of erika').fill('another long word')
  await page.getByRole('button', { name: 'Set' }).click()
  await said('erika has a new password')
  const { users } = await world.ask('/users')
  assert.deepEqual([users[0].username, users[0].role, users[0].enabled], ['erika', 'operator', false])
  await shoot(page, 'users-used-desktop-light')
  await page.getByRole('button', { name: 'Remove erika' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
  await said('erika was removed')
  await page.getByText('No users yet').waitFor()
  tab.clean(/^409 POST \/users/)
})

test('a plugin is stopped, started, run, and enabled with the gateway; for the page itself a question comes first', async () => {
  await open('switches')
  const row = page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: 'env_guard' }) })
  await row.getByRole('button', { name: 'Stop env_guard' }).click()
  await said('env_guard was stopped')
  await row.getByRole('button', { name: 'Start env_guard' }).click()
  await said('env_guard was started')
  await row.getByRole('button', { name: 'Stop env_guard' }).waitFor()
  await row.getByText('Run a command').click()
  await row.getByLabel('Command of env_guard').fill('status')
  await row.getByRole('button', { name: 'Run', exact: true }).click()
  await row.getByText('exit code 0').waitFor()
  const enabled = row.getByRole('switch', { name: 'env_guard enabled' })
  const before = await enabled.getAttribute('aria-checked')
  await enabled.click()
  await said('env_guard was changed')
  await until('it is changed', async () => (await enabled.getAttribute('aria-checked')) !== before)
  await shoot(page, 'plugins-used-desktop-light')
  await page.getByRole('button', { name: 'Stop web_user' }).click()
  await page.getByRole('dialog').getByText('this page').waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('switch', { name: 'web_user enabled' }).click()
  await page.getByRole('heading', { name: 'Disable web_user?' }).waitFor()
  await page.keyboard.press('Escape')
  assert.equal(await page.getByRole('switch', { name: 'web_user enabled' }).getAttribute('aria-checked'), 'true')
  tab.clean()
})

test('on a phone a user is added, and the confirmation line can be closed', async () => {
  const phone = await world.tab({ size: PHONE })
  await phone.page.goto(`${world.url}/#/users`)
  await phone.page.getByLabel('Name').fill('max')
  await phone.page.getByRole('button', { name: 'Add', exact: true }).click()
  const line = phone.page.getByRole('status').filter({ hasText: 'max was added' })
  await line.waitFor()
  assert.deepEqual(await phone.page.evaluate(AUDIT), [])
  await shoot(phone.page, 'said-phone-light', false)
  await phone.page.getByRole('button', { name: 'Dismiss' }).click()
  await until('the line is gone', async () => (await line.count()) === 0)
  phone.clean()
  await phone.context.close()
})
