// Writes the lease metrics for other programs: a small JSON file, `{metrics, metrics_updated_at}`, after changes and at most
// every metrics_flush_seconds (the reference writes them into Config.json, which here only users change). A failed write is
// thrown to the meter, which counts it; the next write tries again. Not synced: its loss does no harm.
import { type Files, realFiles } from '../../lib/files'
import type { LeaseMetrics } from './lease'

export class LeaseMetricsFile {
  readonly #path: string
  readonly #flushSeconds: () => number
  readonly #files: Files
  #written = ''
  #writtenAt = Number.NEGATIVE_INFINITY

  /** `flushSeconds` is called each time, so that a configuration change takes effect immediately. */
  constructor(path: string, flushSeconds: () => number, files: Files = realFiles) {
    this.#path = path
    this.#flushSeconds = flushSeconds
    this.#files = files
  }

  /** The allocator's metricsSink. */
  readonly sink = ({ updated_at, ...metrics }: LeaseMetrics): void => {
    const text = JSON.stringify(metrics)
    // a clock that was set back must not block the file for ever
    const since = Math.abs(updated_at - this.#writtenAt)
    if (text === this.#written || since < this.#flushSeconds()) return
    const temporary = `${this.#path}.tmp`
    const fd = this.#files.open(temporary, 'w')
    try {
      this.#files.write(fd, Buffer.from(`{"metrics":${text},"metrics_updated_at":${updated_at}}\n`))
    } finally {
      this.#files.close(fd)
    }
    this.#files.rename(temporary, this.#path)
    this.#written = text
    this.#writtenAt = updated_at
  }
}
