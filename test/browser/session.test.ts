// Signing in and out, what each role may do, and a gateway that goes away and returns.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { answerOf } from '../lib/ask'
import { AUDIT } from '../lib/audit'
import { PHONE, shoot, World } from '../lib/browser'
import { freePort, Machine, until } from '../lib/gateway'

let world: World
before(async () => {
  world = await World.start()
})
after(() => world?.stop())

const PASSWORD = 'a long enough password'

async function user(username: string, role: string): Promise<void> {
  const made = await world.ask('/users', {
    method: 'POST',
    body: JSON.stringify({ username, password: PASSWORD, role }),
  })
  assert.equal(made.ok, true)
}

test('without a token the page asks for it; a wrong one is reported, the right one opens the page, signing out closes it', async () => {
  for (const [name, size] of [
    ['phone', PHONE],
    ['desktop', undefined],
  ] as const) {
    const tab = await world.tab({ token: '', ...(size && { size }) })
    const { page } = tab
    await page.goto(`${world.url}/#/devices`)
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    await until('the field has the focus', () => page.evaluate("document.activeElement.id === 'token'"))
    assert.deepEqual(await page.evaluate(AUDIT), [])
    await shoot(page, `login-${name}-light`)
    await page.getByLabel('Admin token').fill('not-the-token')
    await page.keyboard.press('Enter')
    await page.getByText('This token is wrong.').waitFor()
    await until('the field has the focus', () => page.evaluate("document.activeElement.id === 'token'"))
    await page.getByLabel('Admin token').fill(` ${world.token} `)
    await page.keyboard.press('Enter')
    // the view that was requested
    await page.getByRole('heading', { level: 1, name: 'Devices' }).waitFor()
    // the token itself is not stored, its session is
    assert.match(String(await page.evaluate("sessionStorage.getItem('os-node-token')")), /^os-session-/)
    await page.reload()
    await page.getByRole('heading', { level: 1, name: 'Devices' }).waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    assert.equal(await page.evaluate("sessionStorage.getItem('os-node-token')"), null)
    // a request may be on its way as the session ends
    tab.clean(/^401 POST \/api\/login/, /^401 GET /)
    await tab.context.close()
  }
})

test('a link with a token signs in and leaves no token in the address; a wrong one is reported', async () => {
  const tab = await world.tab({ token: '' })
  const { page } = tab
  await page.goto(`${world.url}/#/?token=${encodeURIComponent('not-the-token')}`)
  await page.getByText('This sign-in link is no longer valid.').waitFor()
  await page.goto(`${world.url}/#/?token=${encodeURIComponent(world.token)}`)
  await page.getByText('Log on flash').waitFor()
  assert.equal(page.url(), `${world.url}/#/`)
  await page.goBack()
  assert.ok(!page.url().includes(world.token))
  tab.clean(/^401 POST \/api\/login/)
  await tab.context.close()
})

test('an operator signs in with a password, switches, and may not change settings or users', async () => {
  await user('otto', 'operator')
  const tab = await world.tab({ token: '' })
  const { page } = tab
  await page.goto(world.url)
  await page.getByRole('button', { name: 'User', exact: true }).click()
  await page.getByLabel('User', { exact: true }).last().fill('otto')
  await page.getByLabel('Password').fill('wrong')
  await page.keyboard.press('Enter')
  await page.getByText('User or password is wrong.').waitFor()
  await page.getByLabel('Password').fill(PASSWORD)
  await page.keyboard.press('Enter')
  await page.getByText('Log on flash').waitFor()
  await page.goto(`${world.url}/#/switches`)
  await page.getByRole('switch', { name: 'TCP', exact: true }).click()
  await page.getByRole('status').filter({ hasText: 'TCP is on' }).waitFor()
  await page.goto(`${world.url}/#/settings`)
  await page.getByText('changing settings needs the role admin').waitFor()
  await page.getByText('Engine settings').first().click()
  assert.ok(await page.getByLabel('engine_settings.precision').isDisabled())
  await page.goto(`${world.url}/#/users`)
  await page.getByText('otto has the role operator; changing users needs the role admin.').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Add', exact: true }).count(), 0)
  await page.goto(`${world.url}/#/console`)
  await page.getByLabel('Command', { exact: true }).fill('config-set --key engine_settings.precision --value 3')
  await page.keyboard.press('Enter')
  await page.getByText('role admin required').waitFor()
  tab.clean(/^401 POST \/api\/login/, /^403 POST \/api\/oscli\/execute/)
  await tab.context.close()
})

test('a viewer can open everything and change nothing', async () => {
  await user('vera', 'viewer')
  const tab = await world.tab({ token: '' })
  const { page } = tab
  await page.goto(world.url)
  await page.getByRole('button', { name: 'User', exact: true }).click()
  await page.getByLabel('User', { exact: true }).last().fill('vera')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.keyboard.press('Enter')
  await page.getByText('Log on flash').waitFor()
  // the role is loaded again, and nothing is offered before that
  await page.reload()
  for (const view of ['readings', 'devices', 'packets', 'packets/decode', 'log', 'users', 'sections', 'settings']) {
    await page.goto(`${world.url}/#/${view}`)
    await page.locator('main h1').waitFor()
    await page.locator('main').getByText('Loading …').first().waitFor({ state: 'hidden' })
  }
  await page.goto(`${world.url}/#/switches`)
  await page.getByText('switching needs the role operator').waitFor()
  assert.ok(await page.getByRole('switch', { name: 'UDP', exact: true }).isDisabled())
  await page.goto(`${world.url}/#/console`)
  await page.getByText('running commands needs the role operator').waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  tab.clean(/^401 GET /)
  await tab.context.close()
})

test('refused by a restarted gateway, the page signs in again automatically; refused by one that did not restart, it says so', async () => {
  const tab = await world.tab({ token: '' })
  const { page } = tab
  await page.goto(world.url)
  await page.getByLabel('Admin token').fill(world.token)
  await page.keyboard.press('Enter')
  await page.getByText('Log on flash').waitFor()
  for (const restarted of [true, false]) {
    const again = restarted ? page.waitForResponse('**/api/login') : undefined
    const body = JSON.stringify({ ok: false, error: 'admin token required', code: 'UNAUTHORIZED', restarted })
    await page.route('**/api/dashboard*', route => route.fulfill({ status: 401, body }), { times: 1 })
    assert.equal((await again)?.status() ?? 0, restarted ? 200 : 0)
    if (restarted) await page.locator('.connection[data-state=up]').waitFor()
    else await page.getByText('Your session has ended.').waitFor()
  }
  tab.clean(/^401 GET /)
  await tab.context.close()
})

test('a user who is disabled is signed out immediately, with the reason', async () => {
  await user('nina', 'viewer')
  const tab = await world.tab({ token: '' })
  const { page } = tab
  await page.goto(world.url)
  await page.getByRole('button', { name: 'User', exact: true }).click()
  await page.getByLabel('User', { exact: true }).last().fill('nina')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.keyboard.press('Enter')
  await page.getByText('Log on flash').waitFor()
  await world.ask('/users/nina', { method: 'PUT', body: JSON.stringify({ enabled: false }) })
  await page.getByText('Your session has ended.').waitFor()
  tab.clean(/^401 GET /)
  await tab.context.close()
})

test('a gateway that goes away is reported immediately and clearly; when it returns the page is live again, signed in', async t => {
  const tab = await world.tab({ token: '' })
  const { page } = tab
  await page.goto(world.url)
  await page.getByLabel('Admin token').fill(world.token)
  await page.keyboard.press('Enter')
  await page.getByText('Log on flash').waitFor()
  await world.gateway.stop()
  await page.getByRole('alert').filter({ hasText: 'Values shown may be out of date.' }).waitFor()
  // the last data stays
  assert.ok(await page.getByText('Log on flash').isVisible())
  assert.deepEqual(await page.evaluate(AUDIT), [])
  await shoot(page, 'away-desktop-light')
  await page.setViewportSize(PHONE)
  await shoot(page, 'away-phone-light', false)
  await page.getByRole('button', { name: 'Retry now' }).click()
  await page.getByText('Values shown may be out of date.').waitFor()
  await world.startGateway()
  await page.getByText('Values shown may be out of date.').waitFor({ state: 'hidden' })
  await page.locator('.connection[data-state=up]').waitFor()
  assert.ok(await page.getByText('Log on flash').isVisible())
  // killed: the page is back with its first tries after the gateway answers
  let tries = 0
  page.on('request', request => {
    if (request.url().includes('/api/dashboard')) tries++
  })
  for (let k = 0; k < 3; k++) {
    await world.gateway.stop('SIGKILL')
    await page.locator('.connection[data-state=away]').waitFor()
    await world.startGateway(true)
    const [answers, before] = [performance.now(), tries]
    await page.locator('.connection[data-state=up]').waitFor()
    t.diagnostic(`back ${(performance.now() - answers).toFixed(0)} ms after /health answered`)
    // refused, since sessions are lost, then signed in; one may have been in flight
    assert.ok(tries - before <= 3, `${tries - before} tries`)
    await until(
      'its sources are listed',
      async () => (await answerOf(world.gateway, 'status')).links.cpu?.state === 'up',
    )
  }
  // while it was away the browser itself reports that there is no answer
  assert.deepEqual(tab.problems.foreign, [])
  assert.deepEqual(
    tab.problems.console.filter(line => !/ERR_|Failed to fetch/.test(line)),
    [],
  )
  await tab.context.close()
})

test('while the configuration is read-only, switches and settings say why nothing changed', async () => {
  world.gateway.run('config-set', '--key', 'web_user.read_only', '--value', 'true', '--type', 'bool')
  const tab = await world.tab()
  const { page } = tab
  await page.goto(`${world.url}/#/switches`)
  await page.getByRole('switch', { name: 'QUIC', exact: true }).click()
  await page.getByRole('status').filter({ hasText: 'read-only mode is active' }).waitFor()
  const quic = page.getByRole('switch', { name: 'QUIC', exact: true })
  await until('it is off', async () => (await quic.getAttribute('aria-checked')) === 'false')
  await page.getByText('Nothing can be changed over HTTP: read-only mode is active').waitFor()
  tab.clean(/^403 POST \/api\/transport/)
  await tab.context.close()
  world.gateway.run('config-set', '--key', 'web_user.read_only', '--value', 'false', '--type', 'bool')
})

test('without sign-in, database and upstream the page works as well, and says what is missing', async () => {
  const port = await freePort()
  const bare = new Machine(join(world.dir, 'bare'), 'run', {
    device_id: 'BARE-1',
    assigned_id: 9,
    web_user: { auth_enabled: false },
    storage: { sql: { enabled: false } },
    gateway: {
      sources: [{ name: 'cpu', type: 'cpu', interval_s: 1 }],
      // named, so that it starts no local upstream, and of a disabled medium
      uplinks: [{ name: 'nowhere', medium: 'TCP', host: '127.0.0.1', port: 9 }],
    },
  })
  await bare.start(['--port', String(port)], port)
  const tab = await world.tab({ token: '' })
  const { page } = tab
  try {
    await page.goto(`http://127.0.0.1:${port}/#/overview`)
    await page.getByText('No uplink is active').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Sign out' }).count(), 0)
    await page.goto(`http://127.0.0.1:${port}/#/packets`)
    await page.getByText('Database not configured.').waitFor()
    await page.goto(`http://127.0.0.1:${port}/#/devices`)
    await page.getByRole('link', { name: 'BARE-1' }).click()
    await page.getByRole('link', { name: /cpu_busy/ }).click()
    await page.getByText('values since this page was opened').waitFor()
    await page.getByRole('img', { name: /cpu_busy over the last/ }).waitFor()
    // no login is required, so every visitor here is the admin
    await page.goto(`http://127.0.0.1:${port}/#/switches`)
    await page.getByRole('switch', { name: 'QUIC', exact: true }).click()
    await page.getByRole('status').filter({ hasText: 'QUIC is on' }).waitFor()
    assert.deepEqual(tab.problems.console, [])
  } finally {
    await tab.context.close()
    await bare.stop()
  }
})

test('safe mode is shown on every view with its reason; an admin leaves it there', async () => {
  const port = await freePort()
  const config = {
    device_id: 'CAREFUL-1',
    assigned_id: 9,
    gateway: { sources: [{ name: 'cpu', type: 'cpu', interval_s: 1 }], uplinks: [{ name: 'nowhere', medium: 'TCP' }] },
  }
  const careful = new Machine(join(world.dir, 'careful'), 'run', config, ['env', 'OS_NODE_SAFE_MODE=on'])
  await careful.start(['--port', String(port)], port)
  const { token } = careful.json('token', '--new') as { token: string }
  const tab = await world.tab({ size: PHONE, token })
  const { page } = tab
  // the Overview shows it for the database too: "kept off by safe mode: ..."
  const banner = page.getByText(/^Safe mode: requested by OS_NODE_SAFE_MODE/)
  try {
    for (const view of ['settings', 'readings', 'overview']) {
      await page.goto(`http://127.0.0.1:${port}/#/${view}`)
      await banner.waitFor()
    }
    assert.deepEqual(await page.evaluate(AUDIT), [])
    await shoot(page, 'safe-mode-phone-light', false)
    await page.getByRole('button', { name: 'Leave safe mode' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('status').filter({ hasText: 'Safe mode ended' }).waitFor()
    await banner.waitFor({ state: 'hidden' })
    await page.getByRole('listitem').filter({ hasText: 'cpu' }).getByText('up', { exact: true }).waitFor()
    assert.deepEqual([tab.problems.console, tab.problems.answers], [[], []])
  } finally {
    await tab.context.close()
    await careful.stop()
  }
})

test('values of a device are shown as text, whatever they contain', async () => {
  // the wire refuses > . : ; | in a name, but the page must not rely on that
  const evil = '<img src=x onerror=alert(1)'
  const sent = world.field.run('transmit', '--device-id', 'EVIL-1', '--sensor-id', evil, '--value', '7', '--unit', 'V')
  assert.equal(sent.code, 0, sent.stderr)
  const tab = await world.tab()
  const { page } = tab
  for (const view of ['readings', 'devices', 'packets']) {
    await page.goto(`${world.url}/#/${view}`)
    await page.getByText('EVIL-1').first().waitFor()
  }
  await page.goto(`${world.url}/#/readings/EVIL-1`)
  await page.getByText(evil).first().waitFor()
  assert.equal(await page.locator('main img').count(), 0)
  await page.getByRole('link', { name: evil }).click()
  await page.getByRole('heading', { name: `${evil} of EVIL-1` }).waitFor()
  tab.clean()
  await tab.context.close()
})
