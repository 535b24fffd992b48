// Tests inside the kernel rig. A file of the group `rig` passes its tests to `inTheRig`: on this machine that boots the rig's
// kernel and runs the same file there, once for all its tests; their results are reported as if they had run here. Inside,
// the test is root on a separate machine: it may create networks and buses, load modules and set the clock. A boot takes
// about a second; a hanging kernel is killed and the file fails.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { root } from './gateway'

export interface RigOptions {
  /** memory of the kernel in MiB, including the files that the machine writes */
  memory?: number
  /** time limit after which the kernel is killed */
  seconds?: number
  /** with qemu and Debian's own kernel, with CAN controllers (test/rig/stock): slow */
  stock?: boolean
  /** a library of the test keeps handles open: exit after the last test */
  forceExit?: boolean
}

const INSIDE = 'OS_NODE_IN_RIG'

/**
 * The runner, for a test on this machine: `spawnSync(runner[0], [...runner.slice(1), 'ip', 'link'])`. It ends with this
 * process.
 */
export const runner: readonly [string, ...string[]] = ['setpriv', '--pdeathsig', 'TERM', join(root, 'test/rig/run')]

const stockRunner: typeof runner = ['setpriv', '--pdeathsig', 'TERM', join(root, 'test/rig/stock')]

/** Runs the tests that `tests` registers inside the rig. Call it once, at the top level of the file. */
export function inTheRig(
  tests: () => void,
  { memory = 768, seconds = 600, stock = false, forceExit = false }: RigOptions = {},
): void {
  if (process.env[INSIDE]) {
    tests()
    return
  }
  const flags = forceExit ? ['--test-force-exit'] : []
  const self = [process.execPath, ...process.execArgv, ...flags, process.argv[1]!]
  const [first, ...words] = stock ? stockRunner : runner
  const { status, signal, error } = spawnSync(first, [...words, ...self], {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      ...process.env,
      [INSIDE]: '1',
      RIG_MEM: `${memory}M`,
      STOCK_MEM: `${memory}M`,
      RIG_TIMEOUT: String(seconds),
    },
  })
  if (error) throw error
  process.exitCode = status ?? 1
  if (signal) console.error(`rig: ${signal}`)
}

/** Runs a system tool inside the rig; throws its output if it fails. */
export function tool(...command: [string, ...string[]]): string {
  const ran = spawnSync(command[0], command.slice(1), { encoding: 'utf8' })
  if (ran.status !== 0) throw new Error(`${command.join(' ')}: ${ran.error?.message ?? ran.stderr.trim()}`)
  return ran.stdout
}

/** Sets the rig's clock (milliseconds since 1970); the kernel accepts no time before its own uptime. */
export function setClock(at: number): void {
  tool('date', '-s', `@${(at / 1000).toFixed(3)}`)
}
