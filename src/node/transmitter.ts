// Readings → one packet of a node: strategy, session, free parts, and the log if the node has one.
import { OsError } from '../lib/errors'
import { type Core, type RejectedRow, type Strategy, strategyName } from '../pipeline/core'
import { type Fact, factToDict, type Reading } from '../pipeline/fact'
import type { Standardizer } from '../pipeline/standardize'
import type { HandshakeManager } from '../protocol/handshake/manager'
import type { NodeSecurity } from './secure'
import type { NodeTime } from './time'
import type { BatchCall, NodeLog, TransmitOptions, TransmitResult } from './types'

interface TransmitterParts {
  readonly core: Core
  readonly standardizer: Standardizer
  readonly security: NodeSecurity
  readonly protocol: HandshakeManager
  readonly time: NodeTime
  readonly log: NodeLog | undefined
}

/** A staged packet; those with free parts are complete already. */
export interface Staged {
  readonly packet: Buffer | null
  readonly aid: number
  readonly tMs: number
  readonly strategy: TransmitResult[2]
}

const hasExtras = ({ geohash, url, msg }: TransmitOptions): boolean =>
  geohash !== undefined || url !== undefined || msg !== undefined

export class NodeTransmitter {
  readonly #parts: TransmitterParts
  readonly #fullSent = new Set<number>()
  #rejected: readonly RejectedRow[] | null = null

  constructor(parts: TransmitterParts) {
    this.#parts = parts
  }

  /** rows that the last transmit refused, with the reason (decision 0006) */
  get lastRejected(): readonly RejectedRow[] {
    return this.#rejected ?? this.#parts.core.lastRejected
  }

  /** The wire time of a packet made now. Throws BAD_TIME. */
  timeOf(options: TransmitOptions, aid: number): number {
    return this.#parts.time.onWire(options, this.#parts.security.client.sessions.hasSecureDict(aid))
  }

  /** Throws ALL_READINGS_REFUSED, BAD_ID, BAD_TIME, SECURE_REQUIRED. */
  transmit(
    sensors: readonly Reading[],
    device: string,
    status: string,
    options: TransmitOptions,
    aid: number,
  ): TransmitResult {
    const { core, security } = this.#parts
    security.check(aid, sensors.length)
    const tMs = this.timeOf(options, aid)
    const call = { sensors, device, status, options, aid, tMs }
    const strategy = this.#strategy(aid)
    const own = this.#withExtras(call, strategy)
    const packet = own ?? core.transmitFast(sensors, device, status, tMs, aid, strategy)
    if (!own) this.#rejected = null
    security.packetMade(packet, aid, tMs)
    return [packet, aid, this.#made(packet[0]!, call)]
  }

  /** Adds a packet to the batch: it counts as made now, settle() returns it. Throws the errors of transmit. */
  stage(call: BatchCall): Staged {
    const { core, security } = this.#parts
    const { sensors, device, status, aid, tMs } = call
    security.check(aid, sensors.length)
    const strategy = this.#strategy(aid)
    const packet = this.#withExtras(call, strategy)
    const cmd = packet ? packet[0]! : core.stage(sensors, device, status, tMs, aid, strategy)
    if (!packet) this.#rejected = null
    return { packet, aid, tMs, strategy: this.#made(cmd, call) }
  }

  /** The packets staged since the last call; `staged` in that order. */
  settle(staged: readonly Staged[]): TransmitResult[] {
    const { core, security } = this.#parts
    const made = core.take()
    let next = 0
    return staged.map(({ packet: own, aid, tMs, strategy }) => {
      const packet = own ?? made[next++]!
      security.packetMade(packet, aid, tMs)
      return [packet, aid, strategy]
    })
  }

  /** Drops packets that were not taken. */
  dropStaged(): void {
    if (this.#parts.core.staged > 0) this.#parts.core.take()
  }

  #strategy(aid: number): Strategy {
    return this.#parts.protocol.getStrategy(aid, this.#fullSent.has(aid)) === 'FULL_PACKET' ? 'FULL' : 'DIFF'
  }

  /** Records a packet by its command byte. */
  #made(cmd: number, call: BatchCall): TransmitResult[2] {
    const { log, protocol } = this.#parts
    protocol.commitSuccess(call.aid)
    const name = strategyName(cmd)
    if (name === 'FULL_PACKET') this.#fullSent.add(call.aid)
    if (log) log.appendFact(this.#fact(call), { medium: 'local' })
    return name
  }

  #fact({ sensors, device, status, options: { geohash, url, msg }, aid, tMs }: BatchCall): Fact {
    const { standardizer } = this.#parts
    return standardizer.standardizeToFact(device, status, sensors, { t_raw: tMs, geohash, url, msg }, aid)
  }

  /** Free parts belong to the template, so this uses the complete path: fact, text, frame. Null: there are none. */
  #withExtras(call: BatchCall, strategy: Strategy): Buffer | null {
    const { sensors, device, options, aid } = call
    if (!hasExtras(options)) return null
    const { core, standardizer } = this.#parts
    const fact = this.#fact(call)
    this.#rejected = standardizer.lastRejected
    if (sensors.length > 0 && fact.sensors.length === 0)
      throw new OsError('ALL_READINGS_REFUSED', `no reading of ${device} can be sent: ${this.#rejected[0]!.reason}`, {
        details: { rejected: this.#rejected },
      })
    if (!standardizer.sensorIds) fact.sensors = []
    core.fusion.localId = aid
    return core.fusion.runEngine(`${aid};${core.engine.compress(factToDict(fact), false)}`, strategy)
  }
}
