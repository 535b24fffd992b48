// Reports to the system that others can reach this service at other ports than before: the firewall of the SD image
// then reads its open sockets. They are read from the kernel's tables, so those of plugins and of the native addon
// count, and those of a link that opens late.
//
// Errors: what cannot be read or written is logged once, and tried again at the next call.
import { asOsError, orElse } from '../../lib/errors'
import type { Files } from '../../lib/files'
import type { Logger } from '../../lib/logger'

/** a listening socket, its user and number: TCP that listens (0A), UDP without a peer (07) */
const ROW = /^ *\d+: \S+ \S+ 0[A7] \S+ \S+ \S+ +(\d+) +\S+ (\d+)/gm
const TABLES = ['tcp', 'tcp6', 'udp', 'udp6']

/** Returns a function that writes `file` if other sockets of the user `uid` listen than at its last call. */
export function listenWatch(file: string, files: Files, logger: Logger, uid = process.getuid!()): () => void {
  let known = ''
  let failed = false
  return () => {
    try {
      // a kernel without IPv6 has no tcp6
      const rows = TABLES.map(table => orElse('', () => String(files.read(`/proc/self/net/${table}`)))).join('')
      const now = [...rows.matchAll(ROW)].flatMap(([, user, number]) => (Number(user) === uid ? number : [])).join()
      if (now === known) return
      files.close(files.open(file, 'w'))
      known = now
      failed = false
    } catch (error) {
      if (!failed) logger.warn(`the firewall was not updated: ${asOsError(error).message}`)
      failed = true
    }
  }
}
