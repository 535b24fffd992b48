// A call on an open port: on a thread of its own, which ends with it.
import type { NativeThread } from '../../src/native/native-thread'
import { TtyPort } from '../../src/native/tty'

const SETTINGS = { baudrate: 115_200, data_bits: 8, parity: 'none', stop_bits: 1, flow: 'none' } as const

export async function onTty<T>(path: string, work: (port: NativeThread) => Promise<T>): Promise<T> {
  const port = await TtyPort.open(path, SETTINGS)
  try {
    return await work(port.bus)
  } finally {
    await port.close()
  }
}
