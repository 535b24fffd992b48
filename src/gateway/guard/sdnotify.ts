// Notifications to systemd (sd_notify, R24): READY, STATUS, RELOADING, STOPPING, WATCHDOG and EXTEND_TIMEOUT, as datagrams to
// the socket in NOTIFY_SOCKET (a path, or @abstract). Without NOTIFY_SOCKET nothing is sent.
//
// Errors: without the addon the program systemd-notify sends the datagrams; without that too, one warning is logged. On a
// full socket queue, messages that must arrive are retried. Nothing here can stop the gateway.
import { execFile } from 'node:child_process'
import { asOsError, errno } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { systemTimers, type Timers } from '../../lib/timers'
import { native } from '../../native'

/** Fields of one message, for example {READY: 1, STATUS: 'two links up'}. */
type Notice = Readonly<Record<string, string | number>>

export interface Notifier {
  /** true: NOTIFY_SOCKET is set */
  readonly active: boolean
  /** WATCHDOG=1 is required at least this often; 0: not required */
  readonly watchdogMs: number
  send(notice: Notice): void
}

export const noNotifier: Notifier = { active: false, watchdogMs: 0, send: () => undefined }

interface NotifierParts {
  readonly env: Record<string, string | undefined>
  readonly logger: Logger
  readonly pid?: number
  readonly timers?: Timers
  /** sends one datagram; throws errors of the system or E_NO_ADDON */
  readonly datagram?: (path: string, bytes: Uint8Array) => void
  /** runs systemd-notify; calls `failed` if that fails */
  readonly program?: (args: string[], socket: string, failed: (error: Error) => void) => void
}

const RETRIES = 5
const RETRY_MS = 100

const byAddon = (path: string, bytes: Uint8Array): void => native().sendUnixDatagram(path, bytes)

const byProgram: NotifierParts['program'] = (args, socket, failed) => {
  const env = { ...process.env, NOTIFY_SOCKET: socket }
  execFile('systemd-notify', args, { env, timeout: 5000 }, error => error && failed(error))
}

/** A line break would start another field. */
const message = (notice: Notice): string =>
  Object.entries(notice)
    .map(
      ([key, value]) =>
        `${key}=${String(value)
          .replace(/[\r\n]+/g, ' ')
          .slice(0, 1000)}`,
    )
    .join('\n')

/** The interval of WATCHDOG=1 in ms, 0 if systemd does not watch this process. */
export function watchdogMs({ WATCHDOG_USEC, WATCHDOG_PID }: NotifierParts['env'], pid: number): number {
  const usec = Number(WATCHDOG_USEC)
  if (!WATCHDOG_USEC || !(usec > 0) || (WATCHDOG_PID && Number(WATCHDOG_PID) !== pid)) return 0
  return Math.max(1, Math.floor(usec / 1000))
}

/**
 * The notifier for this environment. Removes the variables from `env`, so that child processes cannot notify for this one.
 */
export function makeNotifier(parts: NotifierParts): Notifier {
  const { env, logger, pid = process.pid, timers = systemTimers, datagram = byAddon, program = byProgram } = parts
  const { NOTIFY_SOCKET: socket } = env
  const interval = watchdogMs(env, pid)
  for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete env[name]
  if (!socket) return noNotifier
  if (!/^[/@]./.test(socket)) {
    logger.warn(
      `NOTIFY_SOCKET ${JSON.stringify(socket)} is neither a path nor an abstract name; systemd gets no notifications`,
    )
    return noNotifier
  }
  let mute = false
  const failed = (error: Error): void => {
    if (!mute) logger.warn(`systemd cannot be notified: ${error.message}`)
    mute = true
  }
  const send = (notice: Notice, tries: number): void => {
    const text = message(notice)
    try {
      datagram(socket, Buffer.from(text))
      mute = false
    } catch (thrown) {
      const error = asOsError(thrown)
      if (error.code === 'E_NO_ADDON') {
        if (!mute) program?.([`--pid=${pid}`, ...text.split('\n')], socket, failed)
      } else if (errno(error.cause ?? thrown) === 'EAGAIN' && tries > 0)
        timers.after(RETRY_MS, () => send(notice, tries - 1))
      else failed(error)
    }
  }
  return { active: true, watchdogMs: interval, send: notice => send(notice, RETRIES) }
}
