// The process around a gateway: signals, uncaught errors, and what the guard needs of the surroundings. SIGHUP reads the
// configuration again; a second SIGINT or SIGTERM ends at once. An uncaught error is a crash: it is logged, what waits is
// committed if that goes quickly, and the process ends with EXIT_CRASHED, for nothing is known of its state any more.
import { writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { isatty } from 'node:tty'
import type { ConfigStore } from '../../config'
import { systemClock } from '../../lib/clock'
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { mapStacks } from '../../lib/stacks'
import { nativeOrNull } from '../../native'
import { Crashes, fingerprintOf } from './crashes'
import { FlashWear } from './flash'
import { FreezeWatch, takeFrozen } from './freeze'
import { EXIT_CRASHED, type Supervision } from './guard'
import { makeNotifier } from './sdnotify'

export interface SuperviseParts {
  readonly config: ConfigStore
  readonly logger: Logger
  readonly version: string
  readonly env: Record<string, string | undefined>
  /** aborted by the first signal to stop */
  readonly signal: AbortSignal
  /** ends as after the first SIGTERM */
  stop(): void
}

export interface Watched {
  readonly supervision: Supervision & { readonly crashes: Crashes }
  /** what the last run was at when its event loop froze, the innermost first; empty when it did not */
  readonly frozen: readonly string[]
  /** commits what waits; called before the process is ended early */
  rescue(commit: () => Promise<unknown>): void
  /** true for an uncaught error that has an owner and ends nothing */
  spares(check: (thrown: unknown) => boolean): void
  /** what SIGHUP does */
  onHangup(reload: () => Promise<unknown>): void
  close(): Promise<void>
}

/** how long a commit may take before an early end */
const RESCUE_MS = 2000
/** heaps of the C library: the default is eight for each processor, which costs 70 MB once compilers and SQLite ran */
const MALLOC_ARENAS = 2
const MALLOC_KEPT_BYTES = 128 * 1024
const TRIM_MS = 15_000
/** how long a start may take */
const START_MS = 120_000

/** The count of crashes of a data directory. */
export function crashesOf(config: ConfigStore, version: string, logger?: Logger): Crashes {
  // what people set: a gateway writes its own ids and the defaults of plugins into the file, and tries nothing else by that
  const { assigned_id: _, device_id: __, hardware_id: ___, ...set } = config.config
  return new Crashes({
    dataDir: config.dataDir,
    fingerprint: fingerprintOf(version, config.path, JSON.stringify(set)),
    limit: config.config.gateway.safe_mode.after_crashes,
    ...(logger && { logger }),
  })
}

export function supervise({ config, logger, version, env, signal, stop }: SuperviseParts): Watched {
  // before the first thread of its own: each would get a heap that is never given back
  const addon = nativeOrNull()
  addon?.limitMalloc(MALLOC_ARENAS, MALLOC_KEPT_BYTES)
  const trim = setInterval(() => addon?.trimMalloc(), TRIM_MS).unref()
  let commit: () => Promise<unknown> = async () => undefined
  let ending = false
  const end = (code: number, reason: string): void => {
    if (ending) return
    ending = true
    logger.error(`${reason}; the process ends with ${code}`)
    setTimeout(() => process.exit(code), RESCUE_MS)
    Promise.resolve()
      .then(() => commit())
      .catch(error => logger.error(`the last commit failed: ${asOsError(error).message}`))
      .then(() => process.exit(code))
  }
  const crashes = crashesOf(config, version, logger)
  const note = join(config.dataDir, 'frozen.json')
  const { text, stack: frozen } = takeFrozen(note, logger) ?? { stack: [] }
  const reason = text && [text, ...frozen.slice(0, 1)].join(' in ')
  if (reason) logger.warn(`the last run was ended: ${reason}`)
  const safeMode = crashes.begin(env.OS_NODE_SAFE_MODE, reason)
  let spared: (thrown: unknown) => boolean = () => false
  const crashed = (thrown: unknown): void => {
    if (!ending && spared(thrown)) return
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
  let reload: (() => Promise<unknown>) | undefined
  const hangup = (): void => {
    // the terminal was closed: the user who started it there has left
    if (interactive && !isatty(0)) stop()
    // the reload itself tells what is wrong
    else reload?.().catch(error => logger.debug(asOsError(error).message))
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
  // a large log is read before anything else can be said
  notifier.send({ EXTEND_TIMEOUT_USEC: START_MS * 1000, STATUS: 'starting' })
  return {
    frozen,
    supervision: {
      notifier,
      freeze,
      crashes,
      flash: FlashWear.of(config.dataDir, systemClock),
      safeMode,
      end: (code, reason) => {
        crashes.crashed(reason)
        end(code, reason)
      },
      ...(env.OS_NODE_PROVEN && { proven: () => writeFileSync(env.OS_NODE_PROVEN!, '') }),
    },
    rescue: run => {
      commit = run
    },
    spares: check => {
      spared = check
    },
    onHangup: run => {
      reload = run
    },
    close: async () => {
      for (const [name, handler] of Object.entries(handlers)) process.off(name, handler as () => void)
      clearInterval(trim)
      await freeze.stop()
    },
  }
}
