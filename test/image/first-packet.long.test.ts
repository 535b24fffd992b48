// Steps 4 to 10 of docs/flash.md on the emulated board, in a browser as large as a phone: the link of the console signs in, a source and an uplink are
// added under Settings, and a gateway of this machine receives the packets. Its screens, in .build/screens, are those of the page.
// The card has 4 GB.
// Only: npm run test:image
// Needs: x64 boards debs image sshd chromium
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Locator } from 'playwright-core'
import { launchBrowser, PHONE, shoot } from '../lib/browser'
import { freePort, freeUdpPort, Machine, removeDir, sensorsOf, tempDir } from '../lib/gateway'
import { BOOT_MS, Board, MIB, until } from './board'

/** What was found is in the middle of the screen. */
const centre = (found: Locator): Promise<void> =>
  found.evaluate(element =>
    (element as unknown as { scrollIntoView(options: object): void }).scrollIntoView({
      block: 'center',
      behavior: 'instant',
    }),
  )

const board = new Board()
board.pins = true
board.cardBytes = 4096 * MIB
const dir = tempDir()
const server = new Machine(join(dir, 'server'), 'serve', {})
before(() => board.make('hostname=greenhouse-1\n', '20min'))
after(async () => {
  await server.stop()
  await board.remove()
  removeDir(dir)
})

test('from power to the first packet as in docs/flash.md: the link signs in, a source and an uplink are added on the page', async t => {
  const [port, web] = [await freeUdpPort(), await freePort()]
  await server.start(['--host', '127.0.0.1', '--port', String(port), '--web-port', String(web)], web)
  const power = board.power()
  t.after(power.cut)
  const link = await until('the link', () => /https:\/\/10\.0\.2\.15(\/#\/\?token=[\w-]{43})\s/.exec(power.said())?.[1])
  const browser = await launchBrowser('--host-resolver-rules=MAP greenhouse-1.local 127.0.0.1')
  t.after(() => browser.close())
  const context = await browser.newContext({ viewport: PHONE, hasTouch: true, isMobile: true, ignoreHTTPSErrors: true })
  const page = await context.newPage()
  page.setDefaultTimeout(BOOT_MS / 4)
  const set = async (key: string, more: object): Promise<void> => {
    await page.goto(`${board.url}/#/settings`)
    // without the message of what was saved before
    await page.reload()
    await page.getByLabel('Find a setting').fill(key)
    const field = page.getByLabel(key, { exact: true })
    await field.fill(JSON.stringify([...JSON.parse((await field.inputValue()) || '[]'), more], null, 2))
    await page.getByText('1 unsaved change').waitFor()
    await centre(field)
    await shoot(page, `flash-${key.replace('gateway.', '')}`, false)
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByRole('status').filter({ hasText: /saved/ }).first().waitFor()
  }

  await page.goto(board.url + link)
  await page.getByText('Log on flash').waitFor()
  await page.goto(`${board.url}/#/readings`)
  await page.locator('main').getByText('cpu_busy').first().waitFor()
  await shoot(page, 'flash-readings', false)

  await set('gateway.sources', {
    ...{ name: 'shed', type: 'gpio' },
    pins: [{ chip: 'gpiochip0', line: 5, name: 'door', mode: 'edge', bias: 'pull_up' }],
  })
  await set('gateway.uplinks', { name: 'home', medium: 'UDP', host: '10.0.2.2', port })

  await page.goto(`${board.url}/#/overview`)
  // instead of the upstream on the board
  await page.locator('main').getByText('home', { exact: true }).first().waitFor()
  await centre(page.getByText(/[1-9]\d* delivered/).first())
  await shoot(page, 'flash-overview', false)
  await until('the level of the pin at the server', async () =>
    (await server.facts()).some(fact => sensorsOf(fact).some(({ id }) => id === 'door')),
  )
  const { text } = await board.shell('df -k /data')
  assert.ok(Number(/ (\d+) +\d+ +\d+ +\d+% \/data$/m.exec(text)![1]) > 3.2 * MIB, text)
})
