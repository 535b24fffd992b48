import { NativeSocket, native } from '../../src/native'

/** A socket that receives what is sent to an AF_UNIX path; @name: in the abstract name space. Throws the error of the kernel. */
export function unixDatagramSocket(path: string): NativeSocket {
  const { addon } = native()
  return new NativeSocket(addon, addon.openUnixDatagram(path))
}
