// Adapters from other rooms to commands: the log, from files or of a running gateway.
import { join } from 'node:path'
import type { ConfigStore } from '../config'
import type { GatewayApi } from '../gateway/api'
import { OsError } from '../lib/errors'
import { realFiles } from '../lib/files'
import { nextTurn } from '../lib/yield'
import {
  exportFacts,
  exportRow,
  type LogLimits,
  logSettings,
  type Selection,
  segmentsIn,
  settle,
  verify,
  verifying,
} from '../log'
import type { LogAccess, Watch } from './context'

/** the remaining size is summed over all segments, so not for every row */
const ROWS_A_REPORT = 256

/** The gateway continues its work between two segments. */
async function verifyInSteps(dir: string, selection: Selection, { signal, progress }: Watch, limits?: LogLimits) {
  const steps = verifying(dir, realFiles, selection, limits)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
    progress?.(...value)
    await nextTurn()
    if (signal.aborted) throw new OsError('TIMEOUT', 'stopped')
  }
}

/** The log in the files of a data directory; `limits`: those of a log that no gateway has open. */
export const logOf = (dataDir: string, limits?: LogLimits): LogAccess => {
  const dir = join(dataDir, 'log')
  return {
    summary: async () => {
      const empty = {
        records: 0,
        first_seq: 0,
        last_seq: 0,
        committed_seq: 0,
        bytes: 0,
        lost: 0,
        bytes_written_today: 0,
      }
      if (!realFiles.exists(dir)) return empty
      const { records, first_seq, last_seq, lost, damaged, gaps: all } = verify(dir, realFiles, undefined, limits)
      const bytes = segmentsIn(dir, realFiles).reduce((sum, { size }) => sum + size, 0)
      const gaps = all.filter(({ reason }) => reason === 'damaged')
      return { ...empty, records, first_seq, last_seq, committed_seq: last_seq, bytes, lost, damaged, gaps }
    },
    verify: (selection, watch) => verifyInSteps(dir, selection, watch, limits),
    export: async function* (from, { progress }) {
      yield* exportFacts(dir, from, realFiles, progress)
    },
  }
}

/** The log that no gateway has open. */
export const closedLog = ({ dataDir, config }: ConfigStore): LogAccess =>
  logOf(dataDir, settle({ dir: dataDir, ...logSettings(config.gateway.log) }))

/** The log of a running gateway: export reads it while the gateway writes. */
export const logOfGateway = (dataDir: string, log: GatewayApi['log']): LogAccess => ({
  ...logOf(dataDir),
  summary: async () => log.status(),
  export: async function* (from, { progress }) {
    const reader = log.reader(from, { kinds: ['fact'] })
    const total = log.bytesAfter(from)
    let rows = 0
    for (let record = reader.next(); record; record = reader.next()) {
      yield exportRow(record)
      if (++rows % ROWS_A_REPORT === 0) progress?.(Math.max(0, total - log.bytesAfter(record.seq)), total)
    }
  },
})
