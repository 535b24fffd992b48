// What plugins get, without a gateway, for tests of services.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { ConfigStore } from '../../../src/config'
import type { FactEvent, LinkEvent, PacketEvent, SentEvent } from '../../../src/gateway/events'
import type { GatewayStatus } from '../../../src/gateway/status'
import { realFiles } from '../../../src/lib/files'
import { createLogger } from '../../../src/lib/logger'
import { readable } from '../../../src/protocol/secure/readable'
import type { GatewayAccess, PluginHost, PluginNode } from '../../../src/services'
import { pluginFragments, pluginSettings } from '../../../src/services'
import { ManualClock } from '../../lib/manual'

export function tempDir(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'os-services-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** A configuration in its own folder, with its data directory next to it. */
export function configIn(dir: string, content: Record<string, unknown> = {}): ConfigStore {
  const path = join(dir, 'Config.json')
  const fd = realFiles.open(path, 'w')
  realFiles.write(fd, Buffer.from(JSON.stringify(content)))
  realFiles.close(fd)
  realFiles.mkdir(join(dir, 'data'))
  return ConfigStore.load({ path, dataDir: join(dir, 'data'), env: {}, fragments: pluginFragments() })
}

export const lines: string[] = []
export const logger = createLogger({ write: line => void lines.push(line) })

/** Packets that went to targets, by target. */
export class FakeNode implements PluginNode {
  readonly assignedId = 5
  readonly deviceId = 'gw'
  readonly sent: { medium: string; options: Record<string, unknown>; packet: Uint8Array }[] = []
  readonly dispatched: [Uint8Array | string, string | null | undefined][] = []
  readonly closed: string[] = []
  /** media that accept nothing, by name */
  readonly dead = new Set<string>()
  device = 'shed'
  whole: Uint8Array | null = null

  async dispatch(packet: Uint8Array | string, medium?: string | null): Promise<boolean> {
    this.dispatched.push([packet, medium])
    return true
  }

  receive(): object {
    return { id: this.device }
  }

  readable(): Uint8Array | null {
    return null
  }

  relay(packet: Uint8Array): Uint8Array {
    if (!this.whole) throw new Error('no template')
    return Uint8Array.of(...this.whole, packet.length)
  }

  readonly transporterManager = {
    open: (medium: string, options: Record<string, unknown>) => {
      if (medium === 'LoRa') return null
      return {
        name: medium,
        lastError: null,
        send: async (packet: Uint8Array) => {
          if (this.dead.has(medium)) return false
          this.sent.push({ medium, options, packet })
          return true
        },
        close: async () => void this.closed.push(medium),
      }
    },
  }
}

/** A gateway whose answers the test sets. */
export class FakeGateway implements GatewayAccess {
  readonly facts = new Set<(event: FactEvent) => void>()
  readonly packets = new Set<(event: PacketEvent) => void>()
  readonly sent = new Set<(event: SentEvent) => void>()
  readonly linkListeners = new Set<(event: LinkEvent) => void>()
  state: Partial<GatewayStatus> = { links: {} }

  status(): GatewayStatus {
    return this.state as GatewayStatus
  }
  links(): GatewayStatus['links'] {
    return this.state.links ?? {}
  }
  /** devices whose packets may be read */
  readonly keys = new Map<number, Uint8Array>()

  readable(packet: Uint8Array): Uint8Array | null {
    return readable(packet, aid => [this.keys.get(aid) ?? []].flat())
  }
  submit(): never {
    throw new Error('no test submits')
  }
  onFact(listener: (event: FactEvent) => void): () => void {
    this.facts.add(listener)
    return () => void this.facts.delete(listener)
  }
  onPacket(listener: (event: PacketEvent) => void): () => void {
    this.packets.add(listener)
    return () => void this.packets.delete(listener)
  }
  onSent(listener: (event: SentEvent) => void): () => void {
    this.sent.add(listener)
    return () => void this.sent.delete(listener)
  }
  onLink(listener: (event: LinkEvent) => void): () => void {
    this.linkListeners.add(listener)
    return () => void this.linkListeners.delete(listener)
  }
  sends(packet: Uint8Array, medium = 'UDP'): void {
    for (const listener of this.sent) listener({ packet, medium })
  }
  receives(packet: Uint8Array, medium = 'UDP', address = '10.0.0.9:5000'): void {
    for (const listener of this.packets) listener({ packet, medium, address })
  }
}

export interface FakeHost extends PluginHost {
  readonly node: FakeNode
  readonly clock: ManualClock
}

export function hostFor(name: string, dir: string, more: Partial<PluginHost> = {}): FakeHost {
  const config = more.config ?? configIn(dir)
  return {
    name,
    config,
    logger,
    clock: new ManualClock(),
    files: realFiles,
    dataDir: config.dataDir,
    version: '9.9.9',
    node: new FakeNode(),
    settings: () => pluginSettings(config, name),
    start: async () => true,
    stop: async () => true,
    ...more,
  } as FakeHost
}

export const io = { signal: new AbortController().signal, print: () => undefined }
