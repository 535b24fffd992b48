// The process of a gateway: signals, uncaught errors, and what the guard needs of the environment. SIGHUP reloads the
// configuration; a second SIGINT or SIGTERM ends the process immediately. An uncaught error is a crash: it is logged, pending
// records are committed if that is fast, and the process ends with EXIT_CRASHED, since its state is unknown.
import { writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { isatty } from 'node:tty'
import type { ConfigStore } from '../../config'
import { systemClock } from '../../lib/clock'
import { asOsError } from '../../lib/errors'
import { realFiles } from '../../lib/files'
import type { Logger } from '../../lib/logger'
import { mapStacks } from '../../lib/stacks'
import { nativeOrNull } from '../../native'
import { Crashes, fingerprintOf } from './crashes'
import { FlashWear } from './flash'
import { FreezeWatch, takeFrozen } from './freeze'
import { EXIT_CRASHED, type Supervision } from './guard'
import { listenWatch } from './listening'
import { makeNotifier } from './sdnotify'

export interface SuperviseParts {
  readonly config: ConfigStore
  readonly logger: Logger
  readonly version: string
  readonly env: Record<string, string | undefined>
  /** aborted by the first stop signal */
  readonly signal: AbortSignal
  /** stops as the first SIGTERM does */
  stop(): void
}

/** What the parts of a program do in these cases; each sets its own. */
interface Hooks {
  /** commits pending records before the process ends early */
  rescue: () => Promise<unknown>
  /** true for an uncaught error that has an owner and ends nothing */
  spares: (thrown: unknown) => boolean
  /** what SIGHUP does */
  hangup: () => Promise<unknown>
}

export interface Watched extends Hooks {
  readonly supervision: Supervision & { readonly crashes: Crashes }
  /** the stack of the last run if its event loop froze, innermost first; otherwise empty */
  readonly frozen: readonly string[]
  close(): Promise<void>
}

/** time limit of the commit before an early end */
const RESCUE_MS = 2000
/** malloc arenas of the C library: the default of eight per processor costs 70 MB after compilers and SQLite ran */
const MALLOC_ARENAS = 2
const MALLOC_KEPT_BYTES = 128 * 1024
const TRIM_MS = 15_000
/** time limit of a start */
const START_MS = 120_000

/** The crash count of a data directory. */
export function crashesOf(config: ConfigStore, version: string, logger?: Logger): Crashes {
  // only user settings: a gateway writes its own ids and the defaults of plugins into the file, which is no new attempt
  const { assigned_id: _, device_id: __, hardware_id: ___, ...set } = config.config
  return new Crashes({
    dataDir: config.dataDir,
    fingerprint: fingerprintOf(version, config.path, JSON.stringify(set)),
    limit: config.config.gateway.safe_mode.after_crashes,
    ...(logger && { logger }),
  })
}

export function supervise({ config, logger, version, env, signal, stop }: SuperviseParts): Watched {
  // before the first thread is created: each would get an arena that is never freed
  const addon = nativeOrNull()
  addon?.limitMalloc(MALLOC_ARENAS, MALLOC_KEPT_BYTES)
  const trim = setInterval(() => addon?.trimMalloc(), TRIM_MS).unref()
  const hooks: Hooks = { rescue: async () => undefined, spares: () => false, hangup: async () => undefined }
  let ending = false
  const end = (code: number, reason: string): void => {
    if (ending) return
    ending = true
    logger.error(`${reason}; the process ends with ${code}`)
    setTimeout(() => process.exit(code), RESCUE_MS)
    Promise.resolve()
      .then(() => hooks.rescue())
      .catch(error => logger.error(`the last commit failed: ${asOsError(error).message}`))
      .then(() => process.exit(code))
  }
  const crashes = crashesOf(config, version, logger)
  const note = join(config.dataDir, 'frozen.json')
  const { text, stack: frozen } = takeFrozen(note, logger) ?? { stack: [] }
  const reason = text && [text, ...frozen.slice(0, 1)].join(' in ')
  if (reason) logger.warn(`the last run was ended: ${reason}`)
  const safeMode = crashes.begin(env.OS_NODE_SAFE_MODE, reason)
  const crashed = (thrown: unknown): void => {
    if (!ending && hooks.spares(thrown)) return
    mapStacks()
    const error = thrown instanceof Error ? thrown : new Error(String(thrown))
    logger.error(`crashed: ${error.stack ?? error.message}`)
    if (!ending) crashes.crashed(error.message)
    end(EXIT_CRASHED, 'an uncaught error')
  }
  let requested = signal.aborted ? 1 : 0
  const again = (name: NodeJS.Signals): void => {
    if (++requested > 1) end(128 + constants.signals[name], `${name} again`)
  }
  const interactive = isatty(0)
  const hangup = (): void => {
    // the terminal was closed: its user has left
    if (interactive && !isatty(0)) stop()
    // the reload itself logs the error
    else hooks.hangup().catch(error => logger.debug(asOsError(error).message))
  }
  const handlers: Record<string, (...args: never[]) => void> = {
    uncaughtException: crashed,
    unhandledRejection: crashed,
    SIGINT: again,
    SIGTERM: again,
    SIGHUP: hangup,
  }
  for (const [name, handler] of Object.entries(handlers)) process.on(name as 'SIGHUP', handler as () => void)
  const freeze = new FreezeWatch(logger, note)
  const notifier = makeNotifier({ env, logger: logger.child('systemd') })
  // reading a large log takes long, and nothing else is reported meanwhile
  notifier.send({ EXTEND_TIMEOUT_USEC: START_MS * 1000, STATUS: 'starting' })
  return Object.assign(hooks, {
    frozen,
    supervision: {
      notifier,
      freeze,
      crashes,
      flash: FlashWear.of(config.dataDir, systemClock),
      safeMode,
      end: (code: number, reason: string) => {
        crashes.crashed(reason)
        end(code, reason)
      },
      ...(env.OS_NODE_PORTS_CHANGED && { listens: listenWatch(env.OS_NODE_PORTS_CHANGED, realFiles, logger) }),
      ...(env.OS_NODE_PROVEN && { proven: () => writeFileSync(env.OS_NODE_PROVEN!, '') }),
    },
    close: async () => {
      for (const [name, handler] of Object.entries(handlers)) process.off(name, handler as () => void)
      clearInterval(trim)
      await freeze.stop()
    },
  })
}
