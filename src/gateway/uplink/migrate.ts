// Names of the uplinks' cursor in the log. Older versions had one cursor per uplink: those of the configured uplinks are read
// once, and the lowest is used, so that nothing is left out. The old cursors are deleted, or a log that refuses when full
// would wait for them for ever.
import type { FlashLog } from '../../log'

const SHARED_QUEUE = 'uplinks'
/** the local upstream has a separate cursor: the first real uplink gets everything that is still in the log */
export const LOOPBACK_QUEUE = 'uplink:loopback'
const OLD = 'uplink:'

export function queueName(
  log: Pick<FlashLog, 'cursor' | 'cursorNames' | 'appendCursor'>,
  local: boolean,
  list: readonly { readonly name: string }[],
): string {
  if (local) return LOOPBACK_QUEUE
  const old = log.cursorNames().filter(name => name.startsWith(OLD) && name !== LOOPBACK_QUEUE)
  if (log.cursor(SHARED_QUEUE) === undefined) {
    const named = list.flatMap(({ name }) => log.cursor(OLD + name) ?? [])
    const any = named.length > 0 ? named : old.map(name => log.cursor(name)!)
    if (any.length > 0) log.appendCursor(SHARED_QUEUE, Math.min(...any))
  }
  for (const name of old) log.appendCursor(name, 0)
  return SHARED_QUEUE
}
