// The identity of this gateway: its readable device id and the uint32 id that a server assigned. Both are stored in
// Config.json (specification, "Node attributes"); a device id is generated at the first start, so that no two fresh installs
// share one (S1). The installation id is stored in the data folder, since Config.json may be copied to another board; it is
// generated at first use.

import type { ConfigStore } from '../config/config-store'
import { isDeviceName, newDeviceId } from '../config/device'
import { installIdOf } from '../config/install'
import { isAssigned, UNASSIGNED } from '../lib/assigned-id'
import { asOsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import type { Logger } from '../lib/logger'
import type { NodeIdentity } from '../links/contracts'
import type { KeepLater } from './unsaved'

export class Identity implements NodeIdentity {
  readonly #config: ConfigStore
  readonly #logger: Logger
  readonly #files: Files
  readonly #later: KeepLater
  #assignedId: number
  #deviceId: string
  #refusal: string | undefined
  #installId = ''
  readonly #listeners = new Set<(aid: number) => void>()

  constructor(
    config: ConfigStore,
    logger: Logger,
    files: Files = realFiles,
    later: KeepLater = (name, _, error) => logger.error(`${name} could not be saved: ${asOsError(error).message}`),
  ) {
    this.#later = later
    this.#config = config
    this.#logger = logger
    this.#files = files
    const id = Number(config.get('assigned_id'))
    this.#assignedId = isAssigned(id) ? id : UNASSIGNED
    this.#deviceId = String(config.get('device_id') ?? '')
    if (!isDeviceName(this.#deviceId)) {
      this.#deviceId = newDeviceId()
      this.#save('device_id', this.#deviceId)
    }
  }

  get deviceId(): string {
    return this.#deviceId
  }

  /** 4294967295 while unassigned. */
  get assignedId(): number {
    return this.#assignedId
  }

  get assigned(): boolean {
    return this.#assignedId !== UNASSIGNED
  }

  /** Why an upstream assigns no id; undefined while there is one. */
  get refusal(): string | undefined {
    return this.assigned ? undefined : this.#refusal
  }

  /** The id as media use it: null while unassigned. */
  get aid(): number | null {
    return this.assigned ? this.#assignedId : null
  }

  /** 12 hex digits, constant for the lifetime of the data folder. If it cannot be stored, it is valid until the stop. */
  get installId(): string {
    this.#installId ||= installIdOf(this.#config.dataDir, this.#logger, this.#files, (write, error) =>
      this.#later('the install id', write, error),
    )
    return this.#installId
  }

  /** A server assigns no id. */
  refuse(reason: string): void {
    this.#refusal = reason
  }

  /** Sets and stores the id that a server assigned. */
  assign(aid: number): void {
    if (aid === this.#assignedId) return
    this.#assignedId = aid
    this.#save('assigned_id', aid)
    for (const listener of [...this.#listeners]) listener(aid)
  }

  onAssigned(listener: (aid: number) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #save(key: string, value: unknown): void {
    const write = (): void => void this.#config.set(key, value)
    try {
      write()
    } catch (error) {
      this.#later(`${key} of Config.json`, write, error)
    }
  }
}
