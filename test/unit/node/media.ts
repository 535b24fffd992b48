// Media that behave as a test says, and a manager or a node over them.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { ConfigStore } from '../../../src/config'
import type { DriverContext, Medium, MediumDriver, OpenableEvents } from '../../../src/links/contracts'
import { Registry } from '../../../src/links/registry'
import { ManualClock, ManualTimers } from '../../lib/manual'

export class FakeMedium implements Medium {
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly maxPacket = 1000
  acknowledges = false
  events: OpenableEvents | undefined
  opens = 0
  closed = 0

  constructor(
    readonly medium: string,
    readonly name: string,
    readonly options: Record<string, unknown>,
    readonly world: FakeWorld,
    readonly context: DriverContext,
  ) {}

  async open(events: OpenableEvents): Promise<void> {
    this.opens++
    this.events = events
    this.world.said.push(`open ${this.medium}`)
    await this.world.onOpen(this)
  }
  async close(): Promise<void> {
    this.closed++
    this.world.said.push(`close ${this.medium}`)
  }
  send(packet: Uint8Array): Promise<boolean> {
    this.world.tried.push(Buffer.from(packet).toString())
    return this.world.onSend(packet, this)
  }
  onPacket(): void {}
}

export class FakeWorld {
  readonly dir = mkdtempSync(join(tmpdir(), 'os-node-media-'))
  readonly clock = new ManualClock()
  readonly timers = new ManualTimers(this.clock)
  readonly made: FakeMedium[] = []
  readonly said: string[] = []
  readonly tried: string[] = []
  onOpen: (medium: FakeMedium) => unknown = () => undefined
  onSend: (packet: Uint8Array, medium: FakeMedium) => Promise<boolean> = async () => true

  constructor() {
    after(() => rmSync(this.dir, { recursive: true, force: true }))
  }

  get last(): FakeMedium {
    return this.made.at(-1)!
  }

  registry(...media: string[]): Registry {
    const driver = (medium: string): MediumDriver => ({
      medium,
      create: (name, options, context) => {
        const made = new FakeMedium(medium, name, options as Record<string, unknown>, this, context)
        this.made.push(made)
        return made
      },
    })
    return new Registry({ media: Object.fromEntries(media.map(name => [name, async () => driver(name)])) })
  }

  config(values: object = {}): ConfigStore {
    const path = join(this.dir, `Config-${Math.trunc(performance.now() * 1000)}.json`)
    writeFileSync(path, JSON.stringify(values))
    return ConfigStore.load({ path, env: {}, dataDir: this.dir })
  }
}
