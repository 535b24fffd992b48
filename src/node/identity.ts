// The identity of a node when it dispatches, for media whose names contain it (MQTT). The gateway's own links may use
// the same broker simultaneously, and a broker ends the older of two connections with the same client id: so this one
// differs.

import type { ConfigStore } from '../config/config-store'
import { installIdOf } from '../config/install'
import type { Logger } from '../lib/logger'
import type { NodeIdentity } from '../links/contracts'
import { UNASSIGNED_ID } from './types'

export class DispatchIdentity implements NodeIdentity {
  readonly #config: ConfigStore
  readonly #logger: Logger
  #installId = ''

  constructor(config: ConfigStore, logger: Logger) {
    this.#config = config
    this.#logger = logger
  }

  get aid(): number | null {
    const id = this.#config.get<unknown>('assigned_id')
    return typeof id === 'number' && id > 0 && id < UNASSIGNED_ID ? id : null
  }

  /** The installation's id with the suffix `-dispatch`. */
  get installId(): string {
    this.#installId ||= `${installIdOf(this.#config.dataDir, this.#logger)}-dispatch`
    return this.#installId
  }

  onAssigned(listener: (aid: number) => void): () => void {
    let before = this.aid
    return this.#config.onChange(() => {
      const { aid } = this
      if (aid !== null && aid !== before) listener(aid)
      before = aid
    })
  }
}
