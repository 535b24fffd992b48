// PostgreSQL and MariaDB for tests, each started once per file, and the storage.sql settings to use them.
// Needs: postgres mariadb
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { createConnection } from 'mysql2'
import postgres from 'postgres'
import type { Pair } from './certs'
import { removeDir, tempDir } from './gateway'
import { Server, SQL_PASSWORD } from './servers'

export const SERVER_DIALECTS = ['postgresql', 'mysql'] as const
export type ServerDialect = (typeof SERVER_DIALECTS)[number]

/** The program that the build creates next to the bundle. */
export const serverScript = join(process.env.OS_NODE_TEST_ROOT ?? process.cwd(), 'dist/os-node-sql.js')

/** storage.sql */
interface ServerSql {
  dialect: ServerDialect
  driver: { database: string; port: number; password: string }
}

export class SqlServer {
  readonly dialect: ServerDialect
  readonly server: Server
  #made = 0

  private constructor(dialect: ServerDialect, server: Server) {
    this.dialect = dialect
    this.server = server
  }

  /** `tls`: the server's certificate, and the authority of clients that have one; connections without TLS are accepted too. */
  static async start(dialect: ServerDialect, tls?: Pair & { ca: string }): Promise<SqlServer> {
    const dir = tempDir()
    const [cert, key, ca] = [join(dir, 'server.crt'), join(dir, 'server.key'), join(dir, 'ca.crt')]
    if (tls) {
      // the folder will belong to the server's user
      copyFileSync(tls.cert, cert)
      copyFileSync(tls.key, key)
      copyFileSync(tls.ca, ca)
    }
    const [postgres, mariadb] = [
      ['ssl=on', `ssl_cert_file=${cert}`, `ssl_key_file=${key}`, `ssl_ca_file=${ca}`],
      [`ssl-cert=${cert}`, `ssl-key=${key}`, `ssl-ca=${ca}`],
    ]
    const [name, lines] = dialect === 'postgresql' ? (['postgres', postgres] as const) : (['mariadb', mariadb] as const)
    return new SqlServer(dialect, await Server.start(name, { dir, lines: tls ? lines : [] }))
  }

  /** A new empty database; returns its storage.sql. */
  async fresh(driver: object = {}): Promise<ServerSql> {
    const database = `os_${++this.#made}`
    await this.ask(`CREATE DATABASE ${database}`, this.dialect === 'postgresql' ? 'postgres' : 'os_node')
    const { port } = this.server
    return { dialect: this.dialect, driver: { port, database, password: SQL_PASSWORD, ...driver } }
  }

  /** Rows as arrays, over a separate connection. */
  async ask(text: string, database: string): Promise<unknown[][]> {
    const { port } = this.server
    const place = { host: '127.0.0.1', port, database, user: 'os_node', password: SQL_PASSWORD }
    if (this.dialect === 'postgresql') {
      const sql = postgres({ ...place, max: 1, onnotice: () => undefined })
      try {
        return [...(await sql.unsafe(text).values())] as unknown[][]
      } finally {
        await sql.end()
      }
    }
    const connection = createConnection(place)
    try {
      return await new Promise((resolve, reject) =>
        connection.query({ sql: text, rowsAsArray: true }, (error, rows) =>
          error ? reject(error) : resolve(Array.isArray(rows) ? (rows as unknown[][]) : []),
        ),
      )
    } finally {
      connection.destroy()
    }
  }

  async stop(): Promise<void> {
    await this.server.stop()
    removeDir(this.server.dir)
  }
}
