// The data of the hardware commands: the machine's GPIO lines, its board, and what the configured links use of it.
import type { Hardware } from '../../src/links/hardware'
import { deviceTree } from './boards'
import { lineReports } from './lines'
import { boardReport } from './report'
import type { Board } from './types'
import type { UseEntry } from './uses'

/** A source, uplink or receiver. */
export interface WiredLink {
  /** as shown to people: 'source door' */
  readonly what: string
  /** only for a source */
  readonly type?: string | undefined
  /** only for an uplink or receiver */
  readonly medium?: string | undefined
  /** as passed to its driver, with defaults */
  readonly options: unknown
}

/** `configured`: the configuration names the board. `values`: the newest readings by sensor id. */
export function hardwareOf(
  board: Board,
  configured: boolean,
  links: readonly WiredLink[],
  values: () => Record<string, number | null>,
): Hardware {
  return {
    lines: () => lineReports(board, values()),
    board: () => boardReport({ board, tree: deviceTree(), configured, entries: links.map(useOf) }),
  }
}

/**
 * Links on one radio share its pins. Where the kernel reads a device for a source, no option names the device; only the
 * type does.
 */
function useOf({ what, type, medium, options }: WiredLink): UseEntry {
  const { spi } = (options ?? {}) as { spi?: unknown }
  return {
    what,
    options: type === undefined ? options : { ...(options as object), type },
    ...(medium !== undefined && typeof spi === 'string' && { holder: `${medium} at ${spi}` }),
  }
}
