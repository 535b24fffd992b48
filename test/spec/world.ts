// What the tables of this folder use: the library as a user of the package has it (the built bundle), nodes in their own
// folders, and a server on the loopback that answers them.
import { createSocket, type Socket } from 'node:dgram'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import type * as Library from '../../src/main'
import { root, script } from '../lib/gateway'

/** `import … from 'os-node'` */
export const library = createRequire(join(root, 'package.json'))(script) as typeof Library
export type Node = InstanceType<typeof library.Node>
export type Reading = Library.Reading

export const ROWS: readonly Reading[] = [
  ['T1', 'OK', 21.5, 'Cel'],
  ['P1', 'OK', 101.3, 'kPa'],
]
/** UNIX seconds that every packet here has */
export const T = 1_710_000_000

const folder = mkdtempSync(join(tmpdir(), 'os-node-spec-'))
const closing: (() => unknown)[] = []
after(async () => {
  for (const close of closing.reverse()) await close()
  rmSync(folder, { recursive: true, force: true })
})

/** Registers a function to be closed at the end. */
export function closes<T extends { close(): unknown }>(thing: T): T {
  closing.push(() => thing.close())
  return thing
}

let made = 0
export function newFolder(): string {
  const dir = join(folder, String(made++))
  mkdirSync(dir)
  return dir
}

export function configFile(content: object = {}): string {
  const path = join(newFolder(), 'Config.json')
  writeFileSync(path, JSON.stringify({ device_id: 'DEV', assigned_id: 7, ...content }, null, 2))
  return path
}

export const newNode = (content: object = {}, options: Library.NodeOptions = {}): Node =>
  closes(new library.Node(configFile(content), options))

/** A UDP server that answers ids, times and pings, and records what it received. */
export class Server {
  readonly heard: Buffer[] = []
  readonly ids = new library.IdAllocator({ baseDir: newFolder() })
  readonly #socket: Socket = createSocket('udp4')
  readonly #protocol = new library.HandshakeManager({}, { allocator: this.ids })

  private constructor() {
    this.#socket.on('message', (packet, from) => {
      this.heard.push(packet)
      void this.#protocol.dispatch(packet, `${from.address}:${from.port}`).then(({ response }) => {
        if (response) this.#socket.send(response, from.port, from.address)
      })
    })
  }

  static async start(): Promise<Server> {
    const server = new Server()
    await new Promise<void>(resolve => server.#socket.bind(0, '127.0.0.1', resolve))
    server.#socket.unref()
    closes(server)
    return server
  }

  get port(): number {
    return this.#socket.address().port
  }

  close(): void {
    this.#socket.close()
    this.ids.stop()
  }
}

let server: Promise<Server> | undefined
/** One server for all rows. */
export const theServer = (): Promise<Server> => (server ??= Server.start())

/** Queries again while the view is built: a busy machine may take longer than a query waits. */
export async function patient<T>(ask: () => Promise<T>): Promise<T> {
  for (let left = 30; ; left--) {
    try {
      return await ask()
    } catch (error) {
      if (left === 0 || (error as { code?: string }).code !== 'DB_STARTING') throw error
    }
  }
}

/** A configuration with which a gateway starts no second process and reads nothing. */
export const quietGateway = {
  gateway: {
    sources: [],
    uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: 9, delivery: 'best_effort' }],
  },
}
