// A batch as main thread and workers hand it over: log records one behind the other, as they lie on the medium.
import { decodeRecord, type LogRecord, recordSize } from '../log'

export function* recordsOf(b: Buffer): Iterable<LogRecord> {
  for (let at = 0; at < b.length; at += recordSize(b, at)) yield decodeRecord(b, at)
}
