// A call on a port that no other program configures or locks: on a thread of its own, which ends with it.
import { DEFAULT_DEADLINE_MS, NativeThread } from '../../src/native/native-thread'

export async function onTty<T>(path: string, work: (port: NativeThread) => Promise<T>): Promise<T> {
  const port = new NativeThread(path)
  try {
    await port.call((addon, bus) => addon.ttyOpen(bus, path), 'open', DEFAULT_DEADLINE_MS)
    return await work(port)
  } finally {
    port.close()
  }
}
