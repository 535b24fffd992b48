// What commands show of this machine: its GPIO lines, and its board with what the links of the configuration use of it.
import type { Hardware } from '../../src/links/hardware'
import { deviceTree } from './boards'
import { lineReports } from './lines'
import { boardReport } from './report'
import type { Board } from './types'
import type { UseEntry } from './uses'

/** A source, uplink or receiver. */
export interface WiredLink {
  /** as people know it: 'source door' */
  readonly what: string
  /** of a source */
  readonly type?: string | undefined
  /** of an uplink or receiver */
  readonly medium?: string | undefined
  /** as its driver gets them, defaults included */
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

/** Links on one radio share its pins; what the kernel does for a source has no option that names it, only the type. */
function useOf({ what, type, medium, options }: WiredLink): UseEntry {
  const { spi } = (options ?? {}) as { spi?: unknown }
  return {
    what,
    options: type === undefined ? options : { ...(options as object), type },
    ...(medium !== undefined && typeof spi === 'string' && { holder: `${medium} at ${spi}` }),
  }
}
