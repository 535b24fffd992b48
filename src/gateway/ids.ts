// The ids this gateway hands out: `serve` from a range of its own, a gateway with an upstream from a pool that the upstream
// gave it, so that its nodes get ids while the upstream is away. Either way an id is on flash before it is answered.
//
// What fails: an allocator file that cannot be read hands out nothing and is shown in the status; a pool that is used up is
// answered NACK ID_POOL_EXHAUSTED, a new device when the memory for ids is full NACK ID_STORE_FULL. Ids of a pool that
// not used within `use_within_days` are forgotten, and one whose device went away is not assigned to another: the upstream may
// have done so already. An upstream of os-node holds ids of a pool for 30 days whatever its lease; no packet tells the lease
// of another upstream, so there `use_within_days` must be shorter than that.
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

/** What is requested of an upstream: `wanted` ids, which are taken by `granted`; that settles when they are on flash. */
export interface PoolWish {
  wanted(): number
  granted(ids: readonly number[]): Promise<void>
}

/** What hands out ids: a range or a pool in files, or the database. */
export type DeviceIds = GatewayIds | SharedIds

interface GatewayIdsOptions {
  config: ConfigStore
  files: Files
  logger: Logger
  source: 'range' | 'pool'
  clock: Clock
  /** UNIX seconds */
  now: () => number
  /** the files are those of a backup */
  restored?: boolean
}

/** What hands out ids in that role; null: nothing does. */
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
  /** what devices are answered from */
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

  /** Reads the files, which may be large, in slices. Requests are answered, and status says how it went, when that is done. */
  async start(): Promise<void> {
    try {
      await this.allocator.start()
      await this.quotas.start()
      await this.allocator.settled()
    } catch (error) {
      this.#failed(error)
    }
  }

  /** They were read, and are on the medium as they are now. */
  get sound(): boolean {
    return this.#problem === null && this.allocator.checkpointFailures === 0
  }

  /** A device was heard: its id stays its own (X6). */
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
      return { source: this.#source, problem: 'the files of ids are being read; requests are answered then' }
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

  /** A broken file is logged once, and is no reason to drop packets. */
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
