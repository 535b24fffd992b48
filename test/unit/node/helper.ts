// Complete nodes in a folder of their own, with a clock that the test moves.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { Node, type NodeOptions } from '../../../src/index'
import type { Reading } from '../../../src/pipeline/fact'
import { ManualClock } from '../../lib/manual'

export const ROWS: readonly Reading[] = [
  ['T1', 'OK', 21.5, 'Cel'],
  ['P1', 'OK', 101.3, 'kPa'],
]
export const SERVER = '192.0.2.1:8080'

export class Bench {
  readonly dir = mkdtempSync(join(tmpdir(), 'os-node-node-'))
  readonly clock = new ManualClock()
  readonly #nodes: Node[] = []

  constructor() {
    after(() => rmSync(this.dir, { recursive: true, force: true }))
  }

  node(name: string, config: Record<string, unknown> = {}, options: NodeOptions = {}): Node {
    const dir = join(this.dir, name)
    mkdirSync(dir, { recursive: true })
    const server = { server_host: '192.0.2.1', server_port: 8080 }
    writeFileSync(join(dir, 'Config.json'), JSON.stringify({ device_id: name, Client_Core: server, ...config }))
    const node = new Node(join(dir, 'Config.json'), { clock: this.clock, ...options })
    this.#nodes.push(node)
    return node
  }
}

/** Command bytes as hex text. */
export const commands = (packets: readonly (Uint8Array | null)[]): string[] =>
  packets.map(packet => (packet ? packet[0]!.toString(16).padStart(2, '0') : '-'))
