// An upstream outside the emulated board: without one, each start of the board starts a second Node for its own.
import type { TestContext } from 'node:test'
import { freePort, freeUdpPort, Machine, removeDir, tempDir } from '../lib/gateway'

/** Starts an upstream on this machine until the end of the test; resolves to its line of os-node.conf. */
export async function startUpstream(t: TestContext): Promise<string> {
  const dir = tempDir()
  const upstream = new Machine(dir, 'serve', {})
  t.after(async () => {
    await upstream.stop()
    removeDir(dir)
  })
  const [port, web] = [await freeUdpPort(), await freePort()]
  await upstream.start(['--host', '127.0.0.1', '--port', String(port), '--web-port', String(web)], web)
  return `uplink=udp://10.0.2.2:${port}\n`
}
