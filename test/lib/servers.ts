// Real servers from Debian packages for tests: each in its own temporary folder, on a free port. A server dies with the test
// process, in whatever way that ends (parent-death signal of the kernel).
// Needs: mosquitto
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { freePort, removeDir, tempDir } from './gateway'

export interface ServerOptions {
  /** 0 or absent: a free one */
  port?: number
  /** the listening address; default 127.0.0.1 */
  host?: string
  /** additional lines of its configuration file */
  lines?: readonly string[]
  /** keeps its data in `dir` over restarts, including kill -9 */
  persistence?: boolean
  /** an existing folder, which stop() does not remove */
  dir?: string
  /** prefix of the command, for example `['ip', 'netns', 'exec', 'far']` */
  prefix?: readonly string[]
}

type Place = Required<Omit<ServerOptions, 'prefix'>>

interface ServerKind {
  readonly command: string
  /** appears in its log when it is ready */
  readonly ready: RegExp
  /** for servers that refuse to run as root */
  readonly user?: string
  /** Writes its files into the folder; returns the command's arguments. */
  arguments(place: Place): string[]
}

/** in the folder of an sshd: the accepted key */
const SSH_KEY = 'user_key'

/** programs of the newest PostgreSQL here; each Debian has another version */
const POSTGRES = postgresDir('/usr/lib/postgresql')

const KINDS = {
  mosquitto: {
    command: '/usr/sbin/mosquitto',
    ready: /mosquitto version \S+ running/,
    arguments({ dir, port, host, lines, persistence }) {
      const file = join(dir, 'mosquitto.conf')
      const has = (key: string): boolean => lines.some(line => line.startsWith(`${key} `))
      const text = [
        'user root', // another user would lose the parent-death signal
        'log_dest stderr',
        'set_tcp_nodelay true',
        ...(persistence
          ? ['persistence true', `persistence_location ${dir}/`, 'autosave_on_changes true', 'autosave_interval 1']
          : []),
        ...(has('listener') ? [] : [`listener ${port} ${host}`]),
        ...(has('allow_anonymous') ? [] : ['allow_anonymous true']),
        ...lines,
      ]
      writeFileSync(file, `${text.join('\n')}\n`)
      return ['-c', file, '-v']
    },
  },
  sshd: {
    command: '/usr/sbin/sshd',
    ready: /Server listening on/,
    arguments({ dir, port, host, lines }) {
      for (const key of ['host_key', SSH_KEY])
        if (!existsSync(join(dir, key)))
          spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(dir, key)], { stdio: 'inherit' })
      // the package's own service would create it
      if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 })
      const file = join(dir, 'sshd_config')
      const text = [
        `Port ${port}`,
        `ListenAddress ${host}`,
        `HostKey ${join(dir, 'host_key')}`,
        `AuthorizedKeysFile ${join(dir, SSH_KEY)}.pub`,
        'PasswordAuthentication no',
        'KbdInteractiveAuthentication no',
        'UsePAM no',
        'StrictModes no', // the folder is under /tmp
        'PidFile none',
        ...lines,
      ]
      writeFileSync(file, `${text.join('\n')}\n`)
      return ['-D', '-e', '-f', file]
    },
  },
  postgres: {
    command: `${POSTGRES}/postgres`,
    ready: /database system is ready to accept connections/,
    user: 'nobody',
    arguments({ dir, port, host, lines }) {
      const data = join(dir, 'data')
      if (!existsSync(data)) {
        writeFileSync(join(dir, 'password'), SQL_PASSWORD)
        const names = ['-U', 'os_node', '--pwfile', join(dir, 'password'), '-A', 'scram-sha-256']
        asNobody(dir, `${POSTGRES}/initdb`, ['-D', data, '-N', '-E', 'UTF8', '--locale=C', ...names])
      }
      const settings = ['fsync=off', 'shared_buffers=16MB', `unix_socket_directories=${dir}`, ...lines]
      return ['-D', data, '-p', String(port), '-h', host, ...settings.flatMap(one => ['-c', one])]
    },
  },
  mariadb: {
    command: '/usr/sbin/mariadbd',
    ready: /ready for connections/,
    user: 'nobody',
    arguments({ dir, port, host, lines }) {
      const data = join(dir, 'data')
      if (!existsSync(data)) {
        writeFileSync(
          join(dir, 'users.sql'),
          `DELETE FROM mysql.global_priv WHERE User = '';\nFLUSH PRIVILEGES;\nCREATE DATABASE IF NOT EXISTS os_node;\nCREATE USER IF NOT EXISTS os_node@'%' IDENTIFIED BY '${SQL_PASSWORD}';\nGRANT ALL ON \`os%\`.* TO os_node@'%';\nCREATE USER IF NOT EXISTS os_certified@'%' IDENTIFIED BY '${SQL_PASSWORD}' REQUIRE X509;\nGRANT ALL ON \`os%\`.* TO os_certified@'%';\n`,
        )
        // like mariadb-install-db, without the tables of help texts
        mkdirSync(data)
        // from version 11 on they have another name
        const name = existsSync('/usr/share/mariadb/mariadb_system_tables.sql') ? 'mariadb' : 'mysql'
        const files = ['tables', 'tables_data'].map(part => `/usr/share/${name}/${name}_system_${part}.sql`)
        const tables = files.map(name => readFileSync(name, 'utf8')).join('\n')
        const options = [
          '--no-defaults',
          `--datadir=${data}`,
          `--tmpdir=${dir}`,
          '--bootstrap',
          '--silent-startup',
          '--innodb-flush-method=nosync',
        ]
        asNobody(
          dir,
          '/usr/sbin/mariadbd',
          options,
          `create database mysql;\nuse mysql;\nSET @auth_root_socket=NULL;\n${tables}`,
        )
      }
      const small = [
        'innodb-buffer-pool-size=32M',
        'innodb-flush-log-at-trx-commit=0',
        'innodb-flush-method=nosync',
        'skip-log-bin',
      ]
      const place = [
        `datadir=${data}`,
        // a start removes the temporary tables of servers that use the same folder
        `tmpdir=${dir}`,
        `port=${port}`,
        `bind-address=${host}`,
        `socket=${dir}/mysql.sock`,
        `init-file=${dir}/users.sql`,
      ]
      return ['--no-defaults', ...[...place, ...small, ...lines].map(option => `--${option}`)]
    },
  },
  haproxy: {
    command: '/usr/sbin/haproxy',
    ready: /Loading success|New worker/,
    // its only argument is the path of its configuration
    arguments({ lines }) {
      return ['-W', '-db', '-f', lines[0]!]
    },
  },
} satisfies Record<string, ServerKind>

/** of the user os_node at the database servers */
export const SQL_PASSWORD = 'only-for-tests'

function postgresDir(dir: string): string {
  const versions = existsSync(dir) ? readdirSync(dir).filter(name => existsSync(join(dir, name, 'bin/initdb'))) : []
  return join(dir, versions.sort((a, b) => Number(a) - Number(b)).at(-1) ?? '', 'bin')
}

/** Runs a program that creates a server's data folder, as the user of the server; that user then owns the folder. */
function asNobody(dir: string, command: string, args: readonly string[], input = ''): void {
  const root = process.getuid?.() === 0
  if (root) spawnSync('chown', ['-R', 'nobody', dir])
  const line = [...(root ? ['setpriv', '--reuid=nobody', '--init-groups'] : []), command, ...args]
  const made = spawnSync(line[0]!, line.slice(1), { cwd: dir, encoding: 'utf8', input })
  if (made.status !== 0) throw new Error(`${command}: ${made.stderr}\n${made.stdout}`)
}

export type ServerName = keyof typeof KINDS

export class Server {
  readonly port: number
  readonly dir: string
  #log = ''
  #child: ChildProcess | undefined

  private constructor(
    readonly name: ServerName,
    private readonly place: Place,
    private readonly prefix: readonly string[],
    private readonly ownDir: boolean,
  ) {
    this.port = place.port
    this.dir = place.dir
  }

  /** Starts a server and waits until it is ready; throws its log if it does not start. */
  static async start(name: ServerName, options: ServerOptions = {}): Promise<Server> {
    const { host = '127.0.0.1', lines = [], persistence = false, prefix = [] } = options
    const dir = options.dir ?? tempDir()
    mkdirSync(dir, { recursive: true })
    const place = { host, lines, persistence, dir, port: options.port || (await freePort()) }
    const server = new Server(name, place, prefix, options.dir === undefined)
    try {
      await server.restart()
    } catch (error) {
      await server.stop()
      throw error
    }
    return server
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Its complete output, over every restart. */
  log(): string {
    return this.#log
  }

  /** Restarts with the same port, folder and configuration; a running server is stopped first. */
  async restart(): Promise<void> {
    await this.#end('SIGTERM')
    const kind: ServerKind = KINDS[this.name]
    const user = kind.user && process.getuid?.() === 0 ? [`--reuid=${kind.user}`, '--init-groups'] : []
    const line = [...this.prefix, 'setpriv', '--pdeathsig=KILL', ...user, kind.command, ...kind.arguments(this.place)]
    const child = spawn(line[0]!, line.slice(1), { cwd: this.dir, stdio: ['ignore', 'pipe', 'pipe'] })
    this.#child = child
    await new Promise<void>((resolve, reject) => {
      const fail = (why: string): void => {
        clearTimeout(timer)
        reject(new Error(`${this.name} on port ${this.port} ${why}; its log:\n${this.#log.slice(-4000)}`))
      }
      const timer = setTimeout(() => fail('was not ready within 120 s'), 120_000)
      const from = this.#log.length
      const collect = (chunk: Buffer): void => {
        this.#log += chunk.toString()
        if (!kind.ready.test(this.#log.slice(from))) return
        clearTimeout(timer)
        resolve()
      }
      child.stdout.on('data', collect)
      child.stderr.on('data', collect)
      child.once('error', error => fail(error.message))
      child.once('exit', (code, signal) => fail(`ended with ${code ?? signal}`))
    })
  }

  /** Kills it, like a power cut; restart() starts it again. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  /** Stops it and removes its folder. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM')
    if (this.ownDir) removeDir(this.dir)
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise<void>(resolve => child.once('exit', () => resolve()))
    child.kill(signal)
    const force = setTimeout(() => child.kill('SIGKILL'), 60_000)
    await ended
    clearTimeout(force)
  }
}

/** A broker that accepts every client, unless `lines` say otherwise; they follow its only listener, or have one at `port`. */
export const startMosquitto = (options: ServerOptions = {}): Promise<Server> => Server.start('mosquitto', options)

/** An ssh server that accepts this user; and the command that runs a line there on a terminal. */
export async function startSshd(): Promise<{ server: Server; on(line: string): string[] }> {
  const server = await Server.start('sshd')
  const known = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'LogLevel=ERROR', 'IdentitiesOnly=yes']
  const options = [...known.flatMap(option => ['-o', option]), '-i', join(server.dir, SSH_KEY)]
  const place = ['-p', String(server.port), `${userInfo().username}@127.0.0.1`]
  return { server, on: line => ['ssh', '-F', 'none', '-tt', ...options, ...place, line] }
}
