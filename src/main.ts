// The program: the library when required, the CLI otherwise. Commands run in a gateway (start-gateway.ts) or without one
// (local-context.ts). Besides index.ts, only these files and machine.ts name concrete rooms.
//
// Errors: a command that cannot be run ends the process with the exit status of its error's code, and says what to do.
import { isMainThread, workerData } from 'node:worker_threads'
import { followsParent } from './gateway/parent-watch'
import { fragments } from './index'
import { silentLogger } from './lib/logger'
import { mapUncaught } from './lib/stacks'
import { localContext, localWeb } from './local-context'
import { SCRIPT } from './machine'
import { libraryWeb } from './services'
import { selfTest } from './services/self-test'
import { ROLE_VARIABLE, STRESS_ROLE } from './services/test-plugin/role'

export * from './index'

/** by then the start is complete, and its page was shown */
const KEEP_MS = 5000

if (isMainThread) mapUncaught()

libraryWeb.of = config => localWeb(config, silentLogger, new AbortController().signal)

/** Signals the launcher, which stores the bytecode of this start for the next one. */
const started = (): void => void setTimeout(() => process.emit('osNodeStarted' as never), KEEP_MS).unref()

async function cli(): Promise<void> {
  const [{ runCli }, { commandLine }] = await Promise.all([import('./cli'), import('./commands')])
  const stop = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => stop.abort())
  process.exitCode = await runCli(commandLine(process.argv[1], process.argv.slice(2)), {
    version: __VERSION__,
    env: process.env,
    cwd: process.cwd(),
    stdout: process.stdout,
    stderr: process.stderr,
    signal: stop.signal,
    fragments: fragments(),
    ...(followsParent() && { logPrefix: 'upstream | ' }),
    context: parts => localContext(parts, { stop: () => stop.abort(), started }),
  })
  // open handles (a waiting socket, a timer) must not keep a finished command alive
  setTimeout(() => process.exit(), 2000).unref()
}

const stressChild = (): void => void selfTest(SCRIPT).then(({ runStressChild }) => runStressChild(SCRIPT))

if (!isMainThread) {
  if (workerData?.role === STRESS_ROLE) stressChild()
} else if (process.send !== undefined && process.env[ROLE_VARIABLE] === STRESS_ROLE) stressChild()
else if (typeof require !== 'undefined' && require.main === module) void cli()
