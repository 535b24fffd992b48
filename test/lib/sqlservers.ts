// PostgreSQL and MariaDB for tests, each started once for a file, and what storage.sql needs to use them.
// Needs: postgres mariadb
import { join } from 'node:path'
import { createConnection } from 'mysql2'
import postgres from 'postgres'
import { Server, SQL_PASSWORD } from './servers'

export const SERVER_DIALECTS = ['postgresql', 'mysql'] as const
export type ServerDialect = (typeof SERVER_DIALECTS)[number]

/** The program that the build makes beside the bundle. */
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

  static async start(dialect: ServerDialect, lines: readonly string[] = []): Promise<SqlServer> {
    return new SqlServer(dialect, await Server.start(dialect === 'postgresql' ? 'postgres' : 'mariadb', { lines }))
  }

  /** A new empty database; its storage.sql. */
  async fresh(driver: object = {}): Promise<ServerSql> {
    const database = `os_${++this.#made}`
    await this.ask(`CREATE DATABASE ${database}`, this.dialect === 'postgresql' ? 'postgres' : 'os_node')
    const { port } = this.server
    return { dialect: this.dialect, driver: { port, database, password: SQL_PASSWORD, ...driver } }
  }

  /** Rows as arrays, over a connection of its own. */
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
      connection.end()
    }
  }

  stop(): Promise<void> {
    return this.server.stop()
  }
}
