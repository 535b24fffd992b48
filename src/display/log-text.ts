// The log in one line for people, the same in `status` and in the section Pipeline.
import { counted } from '../lib/counted'
import type { LogStatus } from '../log'
import { bytesText, duration } from '../units/display'

/** What is known without a running gateway, and more of one that runs. */
type ShownLog = Pick<LogStatus, 'records' | 'bytes' | 'lost' | 'bytes_written_today'> & Partial<LogStatus>

/** Size, how full the log is, the age of its oldest record, and losses. */
export function logText(log: ShownLog, now: number): string {
  const { records, bytes, max_bytes: most, oldest = null } = log
  const age = oldest === null ? '' : `, oldest ${duration((now - oldest) / 1000)}`
  const fill = most ? ` (${Math.round((bytes / most) * 100)} % full${age})` : ''
  return (
    `log: ${counted(records, 'record')}, ${bytesText(bytes)}${fill}, ${log.pending ?? 0} not on flash yet, ` +
    `lost ${log.lost + (log.damaged ?? 0)}, written today ${bytesText(log.bytes_written_today)}`
  )
}
