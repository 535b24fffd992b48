// What commands show of this machine: its GPIO lines, and its board with what the configuration uses of it.
import type { Hardware } from '../../src/links/hardware'
import { deviceTree } from './boards'
import { lineReports } from './lines'
import { boardReport } from './report'
import type { Board } from './types'

/** The parts of Config.json's `gateway` that may name pins and buses. */
export interface WiredConfig {
  readonly board: string
  readonly sources?: readonly { readonly name: string }[] | null
  readonly uplinks: readonly { readonly name: string }[]
  readonly receivers: readonly { readonly name: string }[]
}

/** `values`: the newest readings by sensor id. */
export function hardwareOf(board: Board, config: WiredConfig, values: () => Record<string, number | null>): Hardware {
  const { sources, uplinks, receivers } = config
  const links = { source: sources ?? [], uplink: uplinks, receiver: receivers }
  return {
    lines: () => lineReports(board, values()),
    board: () =>
      boardReport({
        board,
        tree: deviceTree(),
        configured: config.board !== 'auto',
        entries: Object.entries(links).flatMap(([kind, list]) =>
          list.map(entry => ({ what: `${kind} ${entry.name}`, options: entry })),
        ),
      }),
  }
}
