// A link that cannot be created: no driver for its type, or invalid options. The supervisor has it under its name, so
// that every user interface shows it `down` with the reason (decision 0045). It never opens; correcting the configuration replaces
// it with the real one.
import type { LinkCounters, Openable, OpenableEvents } from './contracts'

export class UnavailableLink implements Openable {
  readonly counters: LinkCounters = { rx: 0, tx: 0, errors: 0 }

  constructor(
    readonly name: string,
    /** the reason; its code determines the retry interval */
    readonly reason: Error,
  ) {}

  open(_events: OpenableEvents): Promise<void> {
    return Promise.reject(this.reason)
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
