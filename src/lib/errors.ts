// The error family: a stable code, what happened, what to do. One table maps a code to its HTTP status, the exit code
// of the CLI and the hint that `doctor` and every client print. A code that is not in the table does not compile.

interface ErrorTraits {
  readonly http: number
  /** 1 the operation failed, 2 wrong usage, 3 configuration, 4 storage, 5 network or device */
  readonly exit: number
  readonly retryable: boolean
  readonly hint: string
}

const traits =
  (retryable: boolean) =>
  (http: number, exit: number, hint: string): ErrorTraits => ({ http, exit, retryable, hint })
/** trying again may help */
const again = traits(true)
/** it does not, until something is changed */
const final = traits(false)

export const ERRORS = {
  // usage and input
  BAD_REQUEST: final(400, 2, 'correct the request and send it again'),
  BAD_ARGUMENT: final(400, 2, 'correct that argument'),
  USAGE: final(400, 2, 'see os-node <command> --help'),
  NOT_FOUND: final(404, 1, 'check the name'),
  METHOD_NOT_ALLOWED: final(405, 2, 'use a method of the Allow header'),
  BODY_TOO_LARGE: final(413, 2, 'send a smaller body'),
  UNSUPPORTED_TYPE: final(415, 2, 'send the header Content-Type: application/json'),
  TOO_MANY_ATTEMPTS: again(429, 2, 'wrong tokens are slowed down; wait a few seconds and try again'),
  TOO_MANY_JOBS: again(503, 1, 'wait for a command to end, or cancel one'),
  TOO_MANY_STREAMS: again(503, 1, 'close another open page, or poll with GET'),
  HOST_REFUSED: final(403, 2, 'open the page by a name of web_user.allowed_hosts'),
  CROSS_SITE: final(403, 2, 'send the request from the page of this gateway'),
  REQUEST_TIMEOUT: again(408, 2, 'send the complete request faster'),
  HEADERS_TOO_LARGE: final(431, 2, 'send fewer or shorter headers'),
  UNAUTHORIZED: final(401, 2, 'send the header X-Admin-Token; os-node token --new creates a new one'),
  FORBIDDEN: final(403, 2, 'ask an admin, or allow it in web_user'),
  USER_EXISTS: final(409, 1, 'choose another name, or change that user'),
  READ_ONLY: final(403, 3, 'set web_user.read_only to false to allow writes'),
  // readings and wire
  ALL_READINGS_REFUSED: final(400, 1, 'see rejected for the reason of each row'),
  BAD_READING: final(400, 1, 'a reading is [sensor_id, status, value, unit]'),
  BAD_ID: final(400, 1, 'ids must not contain . | ; > : @, start with & or #, or contain control characters'),
  BAD_TIME: final(400, 1, 'give t as UNIX seconds >= 0'),
  UNKNOWN_UNIT: final(400, 1, 'use a UCUM code such as Cel, Pa, %, m/s'),
  E_PRECISION: final(400, 1, 'raise engine_settings.precision or use a larger unit'),
  PACKET_TOO_LARGE: final(400, 1, 'send fewer sensors in one reading'),
  BAD_PACKET: final(400, 1, 'check the bytes: they are no packet of this protocol'),
  BAD_TEXT: final(400, 1, 'send the text as compress() made it'),
  RELAY_UNDECODABLE: again(400, 1, 'wait for a FULL packet of that template'),
  // identity and peers
  NO_ASSIGNED_ID: final(409, 1, 'run os-node ensure-id --host HOST --port PORT'),
  RX_ONLY: final(409, 3, 'set Node_Setting.device_role to duplex and start again, if this node is to send'),
  ID_POOL_EXHAUSTED: final(409, 1, 'release ids or widen the range'),
  ID_QUOTA: again(409, 1, 'try again in a minute; a valid data packet from this address lifts the quota'),
  ID_ALLOC_FAILED: again(409, 5, 'see os-node status and the log of that server'),
  ID_STORE_FULL: again(409, 1, 'release ids, or raise security_settings.id_max_bytes'),
  SECURE_REQUIRED: again(503, 5, 'send a packet without readings first; its answer opens the secure session'),
  NO_DRIVER: final(
    400,
    5,
    'os-node transport-status lists the media, transporter-toggle --name MEDIUM --enable switches one on',
  ),
  NO_REPLY: again(504, 5, 'check that the server runs and the address is right'),
  BAD_REPLY: again(502, 5, 'check the wires and the settings of the line'),
  NETWORK: again(503, 5, 'check the network and the address'),
  MEDIUM_OFF: final(503, 5, 'os-node transporter-toggle --name MEDIUM --enable'),
  PORT_BUSY: again(503, 5, 'another program uses this port: stop it or choose another with --port'),
  LINK_DOWN: again(503, 5, 'see os-node status for the reason'),
  TLS_FILE: final(500, 3, 'name PEM files that this user may read'),
  TLS_UNTRUSTED: final(503, 5, "give the authority that signed the peer's certificate as tls.ca"),
  TLS_NAME: final(503, 5, 'connect by a name that the certificate has, or give it as tls.servername'),
  TLS_EXPIRED: final(503, 5, 'renew the certificate of the peer; check the clock of this machine'),
  TLS_NOT_YET_VALID: again(503, 5, 'check the clocks of this machine and of the one that made the certificate'),
  TLS_HANDSHAKE: again(503, 5, 'check that the peer speaks TLS at this port, and its log'),
  NO_ACCESS: final(503, 5, 'make the user a member of the group that owns the device (ls -l shows it)'),
  UNSUPPORTED: final(
    503,
    5,
    'the device or its kernel driver does not support this: check the path, or leave out the option that needs it',
  ),
  BUS_BUSY: again(503, 5, 'too many calls wait for this bus: read less often'),
  BUS_STUCK: again(503, 5, 'a device keeps the kernel waiting: check wiring and power; it is used again automatically'),
  E_NO_ADDON: final(503, 5, 'os-node doctor shows why it does not load, and what to do'),
  E_SELFTEST_MISSING: final(
    503,
    1,
    'put os-node-selftest.js of the same version beside os-node.js; the npm package, the Debian package and the image have both',
  ),
  E_SELFTEST_VERSION: final(503, 1, 'replace os-node.js and os-node-selftest.js by those of one version'),
  // the SD image
  NO_SLOTS: final(503, 1, 'only a board with the SD image updates itself; elsewhere install the package'),
  NO_WIFI_SETTINGS: final(503, 1, 'only the Wi-Fi of the SD image is set here; elsewhere use the tools of the system'),
  E_UPDATE: final(400, 1, 'take an update that was made for this board'),
  E_FLASH: final(400, 1, 'see docs/flash.md'),
  E_UPDATE_SOURCE: again(503, 5, 'check the path or the address, and run the command again: it resumes'),
  // backups
  E_BACKUP: final(400, 4, 'take another backup; os-node backup FILE writes one'),
  E_PASSPHRASE: final(400, 2, 'give the passphrase of this backup, or restore it --without-secrets'),
  // configuration
  CONFIG_SYNTAX: final(500, 3, 'correct the file at that line, or run os-node repair-config'),
  CONFIG_INVALID: final(
    400,
    3,
    'correct the key named; os-node config-show --keys lists them, repair-config repairs a file',
  ),
  UNKNOWN_KEY: final(400, 3, 'os-node config-show --keys lists the keys; nothing was changed'),
  SECRET_NEEDED: final(400, 3, 'send the secret itself: a masked one is kept only for the same host, port and medium'),
  CONFIG_KEY: final(404, 3, 'see os-node config-show for the keys'),
  CONFIG_WRITE: again(500, 3, 'check that the folder of Config.json is writable'),
  // storage
  DATA_DIR: final(500, 4, 'choose a writable folder with --data-dir'),
  LOCKED: again(409, 4, 'a gateway already runs on this data directory; stop it or choose another --data-dir'),
  DISK_FULL: again(507, 4, 'free space, or lower gateway.log.max_bytes'),
  STORAGE: again(500, 4, 'check the disk; see os-node log verify'),
  NO_DESCRIPTORS: again(
    503,
    4,
    'raise LimitNOFILE of the service, or ulimit -n; status --json shows the use under guard.files',
  ),
  DB_NOT_CONFIGURED: final(503, 4, 'set storage.sql.enabled to true'),
  DB_STARTING: again(503, 4, 'the SQL view is being rebuilt; try again in a few seconds'),
  DB_UNAVAILABLE: again(503, 4, 'see os-node status for the reason'),
  DB_UNREACHABLE: again(503, 4, 'check that the server runs, and host, port and tls of storage.sql.driver'),
  DB_LOGIN: again(503, 4, 'check database, user and password of storage.sql.driver, and the rights of the user'),
  DB_SCHEMA: again(503, 4, 'run the os-node that wrote the tables, or a newer one, or name another database'),
  E_SQL_MISSING: again(
    503,
    4,
    'put os-node-sql.js of the same version beside os-node.js; the npm package, the Debian package and the image have both',
  ),
  E_SQL_VERSION: final(503, 4, 'replace os-node.js and os-node-sql.js by those of one version'),
  // other
  STARTING: again(503, 1, 'try again in a few seconds'),
  NO_GATEWAY: again(503, 1, 'start one with os-node run'),
  TIMEOUT: again(504, 1, 'try again'),
  PLUGIN_FAILED: final(500, 1, 'see os-node plugin-list; a plugin is turned off by enabled: false in its settings'),
  INTERNAL: final(500, 1, 'a bug in os-node: report it with the log'),
} as const satisfies Record<string, ErrorTraits>

export type ErrorCode = keyof typeof ERRORS

interface ErrorDetails {
  cause?: unknown
  /** replaces the hint of the table if more is known */
  hint?: string
  /** machine-readable facts: keys, rows, line numbers */
  details?: Record<string, unknown>
}

/** The error every public function throws. `message` says what happened, `hint` what to do. */
export class OsError extends Error {
  /** a minified class loses its name */
  static override readonly name = 'OsError'
  readonly code: ErrorCode
  readonly hint: string
  readonly details: Record<string, unknown>

  constructor(code: ErrorCode, message: string, more: ErrorDetails = {}) {
    const { cause, hint, details = {} } = more ?? {}
    super(String(message), cause === undefined ? undefined : { cause })
    if (!Object.hasOwn(ERRORS, code)) throw new OsError('BAD_ARGUMENT', 'new OsError: code must be one of its table')
    this.name = 'OsError'
    this.code = code
    this.hint = hint ?? ERRORS[code].hint
    this.details = details
  }

  get traits(): ErrorTraits {
    return ERRORS[this.code]
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable
  }

  toJSON(): Record<string, unknown> {
    return { error: this.message, code: this.code, hint: this.hint, ...this.details }
  }
}

/** A link was closed while it was being opened. */
export const closedWhileOpening = (): OsError => new OsError('LINK_DOWN', 'closed while opening')

/** An error of a command as JSON; its hint names the command. */
export const errorJson = (error: OsError, command: string): Record<string, unknown> & { hint: string } => ({
  ok: false,
  ...error.toJSON(),
  hint: error.hint.replace('<command>', command),
})

/**
 * Any thrown value as an OsError: one with a code of the table keeps it; any other becomes `fallback`, with the
 * original as its cause.
 */
export function asOsError(thrown: unknown, fallback: ErrorCode = 'INTERNAL'): OsError {
  if (thrown instanceof OsError) return thrown
  const out = outOfFiles(thrown)
  if (out) return out
  const code = errno(thrown)
  const known = code !== undefined && Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : fallback
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  // a file of another owner is no bug
  if (known === 'INTERNAL' && (code === 'EACCES' || code === 'EPERM'))
    return new OsError('DATA_DIR', message, { cause: thrown, hint: 'use sudo, or run as the owner of the file' })
  return new OsError(known, message, { cause: thrown })
}

/** counts failures for lack of a descriptor */
export const descriptors = { refused: 0 }

const OUT_OF_FILES = /^E[MN]FILE\b|\bsystem error (23|24)\b/

/** NO_DESCRIPTORS if the process or the machine has no descriptor left for a file or socket; undefined for anything else. */
export function outOfFiles(thrown: unknown): OsError | undefined {
  const text = thrown instanceof Error ? thrown.message : ''
  if (!OUT_OF_FILES.test(errno(thrown) ?? '') && !OUT_OF_FILES.test(text)) return undefined
  descriptors.refused++
  return new OsError('NO_DESCRIPTORS', text.includes('EMFILE') ? text : `too many open files: ${text}`, {
    cause: thrown,
  })
}

/** The errno name (`ENOSPC`, `EADDRINUSE`, …) of a system error, or undefined. */
export const errno = (thrown: unknown): string | undefined =>
  typeof thrown === 'object' && thrown !== null && 'code' in thrown && typeof thrown.code === 'string'
    ? thrown.code
    : undefined

/** The result of `make`, or `instead` if it throws: for calls whose errors all mean the same. */
export function orElse<T, E>(instead: E, make: () => T): T | E {
  try {
    return make()
  } catch {
    return instead
  }
}
