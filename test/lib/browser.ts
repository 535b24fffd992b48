// A real Chromium on the page of a real gateway with data: own readings, an upstream that answers, a field device that sends,
// SQL storage, a plugin with a section. Each tab records everything a user would consider broken.
// Needs: chromium
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { freePort, freeUdpPort, Machine, removeDir, root, tempDir, until } from './gateway'

export const PHONE = { width: 390, height: 844 }
export const DESKTOP = { width: 1280, height: 800 }
export type Colours = 'light' | 'dark'

export const screens = join(root, '.build/screens')

/** Problems recorded in a tab. */
export interface Problems {
  /** console errors and warnings, uncaught exceptions */
  readonly console: string[]
  /** requests to any other host */
  readonly foreign: string[]
  /** responses with status 400 or above: `status METHOD path` */
  readonly answers: string[]
}

export interface Tab {
  readonly page: Page
  readonly context: BrowserContext
  readonly problems: Problems
  /** Fails for any problem since the last call, except for the responses that a test provoked. */
  clean(...provoked: RegExp[]): void
}

export interface TabOptions {
  size?: { width: number; height: number }
  colours?: Colours
  /** the tab starts signed in with this token */
  token?: string | undefined
}

export class World {
  readonly dir = tempDir()
  token = ''
  webPort = 0
  gateway!: Machine
  upstream!: Machine
  field!: Machine
  browser!: Browser

  static async start(): Promise<World> {
    const world = new World()
    try {
      await world.#start()
    } catch (error) {
      await world.stop()
      throw error
    }
    return world
  }

  get url(): string {
    return `http://127.0.0.1:${this.webPort}`
  }

  async #start(): Promise<void> {
    const [up, packets, upWeb, web] = [await freeUdpPort(), await freeUdpPort(), await freePort(), await freePort()]
    this.webPort = web
    this.upstream = new Machine(join(this.dir, 'up'), 'serve', {})
    await this.upstream.start(['--host', '127.0.0.1', '--port', String(up), '--web-port', String(upWeb)], upWeb)
    this.gateway = new Machine(join(this.dir, 'gw'), 'run', {
      device_id: 'PUMPHOUSE-7',
      assigned_id: 4711,
      storage: { sql: { enabled: true } },
      // the plugin of docs/plugins.md
      plugins: { enabled: true, dir: join(root, 'docs/examples') },
      gateway: {
        uplinks: [{ name: 'headquarters', medium: 'UDP', host: '127.0.0.1', port: up }],
        receivers: [{ name: 'field', medium: 'UDP', host: '127.0.0.1', port: packets }],
      },
    })
    await this.startGateway()
    this.token = (this.gateway.json('token', '--new') as { token: string }).token
    this.field = new Machine(join(this.dir, 'field'), 'run', {
      device_id: 'TANK-3',
      assigned_id: 52,
      RESOURCES: { transport_config: { udp: { host: '127.0.0.1', port: packets } } },
    })
    this.send(41.5, 1.13)
    this.browser = await launchBrowser()
    // wait for the database, so that no request is answered with 503
    await this.packets(1)
  }

  /** `early`: resolves as soon as its page answers. */
  startGateway(early = false): Promise<void> {
    return this.gateway.start(['--port', String(this.webPort)], this.webPort, early)
  }

  /** Sends the field device's two readings, a level and a pressure. */
  send(level: number, bar: number): void {
    const readings = JSON.stringify([
      ['level', 'OK', level, '%'],
      ['pressure', 'OK', bar, 'bar'],
    ])
    const ran = this.field.run('transmit', '--sensors', readings, '--json')
    assert.equal(ran.code, 0, ran.stderr)
  }

  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the gateway answers
  async ask(path: string, init: RequestInit = {}): Promise<any> {
    const answer = await fetch(this.url + path, {
      ...init,
      headers: { 'X-Admin-Token': this.token, ...(init.body ? { 'Content-Type': 'application/json' } : {}) },
    })
    return answer.json()
  }

  /** Waits until the database contains this many packets. */
  async packets(count: number): Promise<void> {
    const enough = async (): Promise<boolean> => (await this.ask('/api/data/packets?limit=1')).total >= count
    await until(`${count} packets`, enough)
  }

  async tab({ size = DESKTOP, colours = 'light', token = this.token }: TabOptions = {}): Promise<Tab> {
    const context = await this.browser.newContext({
      viewport: size,
      colorScheme: colours,
      ...(size === PHONE && { deviceScaleFactor: 2, hasTouch: true, isMobile: true }),
    })
    if (token !== '') {
      await context.addInitScript({ content: `sessionStorage.setItem('os-node-token', ${JSON.stringify(token)})` })
    }
    const page = await context.newPage()
    page.setDefaultTimeout(90_000)
    const problems: Problems = { console: [], foreign: [], answers: [] }
    page.on('console', message => {
      // `answers` records failed responses, with their path
      if (['error', 'warning'].includes(message.type()) && !message.text().startsWith('Failed to load resource'))
        problems.console.push(message.text())
    })
    page.on('pageerror', error => problems.console.push(String(error)))
    page.on('request', request => {
      if (!request.url().startsWith(`${this.url}/`)) problems.foreign.push(request.url())
    })
    page.on('response', answer => {
      if (answer.status() < 400) return
      const line = `${answer.status()} ${answer.request().method()} ${answer.url().slice(this.url.length)}`
      problems.answers.push(line)
    })
    // on a busy machine the database view restarts for some seconds: wait for its data
    const clean = (...provoked: RegExp[]): void => {
      provoked.push(/^503 GET \/api\/data\//)
      assert.deepEqual(problems.console, [])
      assert.deepEqual(problems.foreign, [])
      const answers = problems.answers.splice(0)
      assert.deepEqual(
        answers.filter(line => !provoked.some(pattern => pattern.test(line))),
        [],
      )
    }
    return { page, context, problems, clean }
  }

  async stop(): Promise<void> {
    await this.browser?.close()
    await this.gateway?.stop()
    await this.upstream?.stop()
    removeDir(this.dir)
  }
}

export const launchBrowser = (...args: string[]): Promise<Browser> =>
  chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-background-networking', ...args],
    timeout: 120_000,
  })

/** Writes .build/screens/<name>.png: the complete page, with fixed elements at its bottom. */
export async function shoot(page: Page, name: string, whole = true): Promise<void> {
  mkdirSync(screens, { recursive: true })
  const size = page.viewportSize()!
  if (whole) {
    const height = Number(await page.evaluate('document.documentElement.scrollHeight'))
    await page.setViewportSize({ width: size.width, height: Math.max(size.height, Math.min(4000, height)) })
  }
  await page.screenshot({ path: join(screens, `${name}.png`) })
  await page.setViewportSize(size)
}
