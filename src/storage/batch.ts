// A batch passed between main thread and workers: log records back to back, in their stored form.
import { decodeRecord, type LogRecord, recordSize } from '../log'

export function* recordsOf(b: Buffer): Iterable<LogRecord> {
  for (let at = 0; at < b.length; at += recordSize(b, at)) yield decodeRecord(b, at)
}
