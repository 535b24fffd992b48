// Tests in separate network namespaces on this machine: a file passes its tests to `inItsOwnNetwork`, which runs the same
// file again as root of an empty network and an empty /run. Its ports, addresses and namespaces are private, and all of them
// end with the process.
// Needs: network
import { spawnSync } from 'node:child_process'

/** Prefix of a command that runs in an empty network. */
export const EMPTY_NETWORK = ['unshare', ...(process.getuid?.() === 0 ? [] : ['-r']), '--net']

const INSIDE = 'OS_NODE_OWN_NETWORK'
const SETUP = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"'

/** Runs the tests that `tests` registers in a separate network. Call it once, at the top level of the file. */
export function inItsOwnNetwork(tests: () => void): void {
  if (process.env[INSIDE]) {
    tests()
    return
  }
  const self = [process.execPath, ...process.execArgv, process.argv[1]!]
  const [unshare, ...empty] = EMPTY_NETWORK
  const { status, signal, error } = spawnSync(
    unshare!,
    [...empty, '--mount', '--kill-child', '--fork', 'sh', '-c', SETUP, '-', ...self],
    {
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, [INSIDE]: '1', PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
    },
  )
  if (error) throw error
  process.exitCode = status ?? 1
  if (signal) console.error(`own network: ${signal}`)
}
