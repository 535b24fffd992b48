// A link that cannot even be made: no driver for its type, options that are refused. It is in the supervisor under its
// name, so that every face shows it `down` with the reason instead of nothing at all (D7). It never opens; the user who
// mends the configuration removes it and adds the real one.
import type { LinkCounters, Openable, OpenableEvents } from './contracts'

export class MissingLink implements Openable {
  readonly counters: LinkCounters = { rx: 0, tx: 0, errors: 0 }

  constructor(
    readonly name: string,
    /** why; its code decides how soon it is tried again */
    readonly reason: Error,
  ) {}

  open(_events: OpenableEvents): Promise<void> {
    return Promise.reject(this.reason)
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
