// The ids this gateway assigns: `serve` from its own range; a gateway with an upstream from a pool that the upstream granted,
// so that its nodes get ids while the upstream is unreachable. Either way an id is on flash before it is sent.
//
// Errors: if the allocator file cannot be read, no ids are assigned and the status shows it. An exhausted pool is answered
// with NACK ID_POOL_EXHAUSTED, a new device with NACK ID_STORE_FULL when the memory for ids is full. Pool ids that are not
// used within `use_within_days` are forgotten, and the id of a removed device is not assigned to another: the upstream may
// already have done so. An os-node upstream reserves pool ids for 30 days, whatever its lease; no packet carries the lease of
// other upstreams, so with those `use_within_days` must be shorter than their lease.
import { join } from 'node:path'
import type { ConfigStore } from '../config/config-store'
import type { Clock } from '../lib/clock'
import { counted } from '../lib/counted'
import { asOsError } from '../lib/errors'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import { IdAllocator } from '../protocol/ids/allocator'
import { FileIdStore } from '../protocol/ids/id-store'
import { LeaseMetricsFile } from '../protocol/ids/metricsfile'
import { IdQuotas } from '../protocol/ids/quota'
import type { Database } from '../storage'
import { SharedIds } from './shared-ids'
import type { IdsReport } from './status'

/** A request to the upstream: `wanted` ids; `granted` stores them and settles when they are on flash. */
export interface PoolWish {
  wanted(): number
  granted(ids: readonly number[]): Promise<void>
}

/** The source of ids: a range or a pool in files, or the database. */
export type DeviceIds = GatewayIds | SharedIds

interface GatewayIdsOptions {
  config: ConfigStore
  files: Files
  logger: Logger
  source: 'range' | 'pool'
  clock: Clock
  /** UNIX seconds */
  now: () => number
  /** the files were restored from a backup */
  restored?: boolean
}

/** The id source for that role; null: none. */
export function idsFor(
  role: 'run' | 'serve',
  parts: Omit<GatewayIdsOptions, 'source'> & { database: () => Database | null },
): DeviceIds | null {
  const { security_settings: security, gateway } = parts.config.config
  if (role === 'serve')
    return security.id_lease.store === 'postgresql'
      ? new SharedIds(parts)
      : new GatewayIds({ ...parts, source: 'range' })
  const pool = gateway.receivers.length > 0 && security.id_pool.size > 0
  return pool ? new GatewayIds({ ...parts, source: 'pool' }) : null
}

export class GatewayIds implements PoolWish {
  readonly allocator: IdAllocator
  /** limits for answers to devices */
  readonly quotas: IdQuotas
  readonly #source: 'range' | 'pool'
  readonly #size: number
  readonly #goodFor: number
  readonly #logger: Logger
  #problem: string | null = null

  constructor({ config, files, logger, source, clock, now, restored }: GatewayIdsOptions) {
    const mono = () => clock.mono()
    const { id_lease, id_max_bytes: maxBytes, id_pool } = config.config.security_settings
    const file = source === 'range' ? 'id_allocation.json' : 'id_pool.json'
    const metrics = new LeaseMetricsFile(
      join(config.dataDir, 'id_lease_metrics.json'),
      () => config.get<number>('security_settings.id_lease.metrics_flush_seconds'),
      files,
    )
    this.allocator = new IdAllocator(
      {
        leasePolicy: id_lease,
        maxBytes,
        metricsSink: metrics.sink,
        ...(source === 'pool' && { startId: 1, endId: 0 }),
      },
      { store: new FileIdStore(join(config.dataDir, file), files, restored ? now : undefined), now, mono },
    )
    this.quotas = new IdQuotas(this.allocator, { mono, wall: () => 1000 * now() }, logger)
    this.#source = source
    this.#size = id_pool.size
    this.#goodFor = id_pool.use_within_days * 86_400
    this.#logger = logger
  }

  /** Reads the files in slices, since they may be large. After that, requests are answered and status shows the result. */
  async start(): Promise<void> {
    try {
      await this.allocator.start()
      await this.quotas.start()
      await this.allocator.settled()
    } catch (error) {
      this.#failed(error)
    }
  }

  /** The files were read, and their current state is on flash. */
  get sound(): boolean {
    return this.#problem === null && this.allocator.checkpointFailures === 0
  }

  /** A device sent a packet: it keeps its id (X6). */
  heard(id: number, address: string | null): void {
    this.#safely(() => this.quotas.touch(id, address))
  }

  /** Whether that id is in use here. */
  has(id: number): boolean {
    return this.#safely(() => this.quotas.isAllocated(id)) === true
  }

  wanted(): number {
    if (this.#source === 'range' || this.allocator.reading) return 0
    const left = this.#safely(() => this.allocator.grantsLeft)
    return left !== undefined && 4 * left < this.#size ? this.#size - left : 0
  }

  async granted(ids: readonly number[]): Promise<void> {
    this.allocator.grant(ids, this.#goodFor)
    await this.allocator.commit()
    this.#logger.info(`${counted(ids.length, 'id')} from the upstream's pool for nodes of this gateway`)
  }

  status(): IdsReport {
    if (this.allocator.reading)
      return { source: this.#source, problem: 'the id files are being read; requests are answered after that' }
    const stats = this.#safely(() => {
      this.allocator.reclaimSome()
      return this.allocator.stats()
    })
    if (!stats) return { source: this.#source, problem: this.#problem ?? 'not read yet' }
    const { total_allocated, total_released, next_candidate, bytes, refused, lease_metrics } = stats
    const { checkpointFailures, metricsFailures } = this.allocator
    return {
      source: this.#source,
      allocated: total_allocated,
      released: total_released,
      ...(this.#source === 'range' && { next_candidate }),
      bytes,
      refused,
      ...(checkpointFailures > 0 && { checkpoint_failures: checkpointFailures }),
      ...(metricsFailures > 0 && { metrics_failures: metricsFailures }),
      ...this.quotas.report(),
      lease_metrics,
    }
  }

  stop(): void {
    this.#safely(() => this.allocator.stop())
  }

  /** A broken file is logged once and must not drop packets. */
  #safely<T>(action: () => T): T | undefined {
    try {
      return action()
    } catch (error) {
      this.#failed(error)
      return undefined
    }
  }

  #failed(error: unknown): void {
    const { message } = asOsError(error)
    if (message !== this.#problem) this.#logger.error(message)
    this.#problem = message
  }
}
