// Who this gateway is: its readable device id and the uint32 id a server gave it. Both live in Config.json (specification,
// "Node attributes"); a device id is made on the first start, so that no two fresh installs share one (S1). The id of the
// installation lies in the data folder, since Config.json may be copied to another board; made at its first use.

import type { ConfigStore } from '../config/config-store'
import { isDeviceName, newDeviceId } from '../config/device'
import { installIdOf } from '../config/install'
import { asOsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import type { Logger } from '../lib/logger'
import type { NodeIdentity } from '../links/contracts'
import type { KeepLater } from './unsaved'

export const UNASSIGNED = 4294967295

export class Identity implements NodeIdentity {
  readonly #config: ConfigStore
  readonly #logger: Logger
  readonly #files: Files
  readonly #later: KeepLater
  #assignedId: number
  #deviceId: string
  #installId = ''
  readonly #listeners = new Set<(aid: number) => void>()

  constructor(
    config: ConfigStore,
    logger: Logger,
    files: Files = realFiles,
    later: KeepLater = (name, _, error) => logger.error(`${name} could not be kept: ${asOsError(error).message}`),
  ) {
    this.#later = later
    this.#config = config
    this.#logger = logger
    this.#files = files
    const id = Number(config.get('assigned_id'))
    this.#assignedId = Number.isInteger(id) && id > 0 && id < UNASSIGNED ? id : UNASSIGNED
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

  /** As media ask for it: null while unassigned. */
  get aid(): number | null {
    return this.assigned ? this.#assignedId : null
  }

  /** 12 hex digits, the same for as long as the data folder lives. One that cannot be kept lasts until the stop. */
  get installId(): string {
    this.#installId ||= installIdOf(this.#config.dataDir, this.#logger, this.#files, (write, error) =>
      this.#later('the install id', write, error),
    )
    return this.#installId
  }

  /** Takes the id a server assigned and keeps it. */
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
