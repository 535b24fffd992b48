// Names of the uplinks' cursor in the log. There was one cursor for each uplink before they shared one: the cursors of
// the configured ones are read once, the lowest counts, so that nothing is left out, and the old ones are deleted, or a log
// that refuses when full would wait for them for ever.
import type { FlashLog } from '../../log'

const SHARED_QUEUE = 'uplinks'
/** the gateway's own upstream keeps what it had for itself: the first real one gets everything that is still in the log */
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
