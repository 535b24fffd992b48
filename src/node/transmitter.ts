// Readings → one packet for a node: strategy, session, free parts, and the log where the node has one.
import { OsError } from '../lib/errors'
import { type Core, type RejectedRow, strategyName } from '../pipeline/core'
import { type Fact, factToDict, type Reading } from '../pipeline/fact'
import type { Standardizer } from '../pipeline/standardize'
import type { HandshakeManager } from '../protocol/handshake/manager'
import type { NodeSecurity } from './secure'
import type { NodeTime } from './time'
import type { NodeLog, TransmitOptions, TransmitResult } from './types'

interface TransmitterParts {
  readonly core: Core
  readonly standardizer: Standardizer
  readonly security: NodeSecurity
  readonly protocol: HandshakeManager
  readonly time: NodeTime
  readonly log: NodeLog | undefined
}

export class NodeTransmitter {
  readonly #parts: TransmitterParts
  readonly #fullSent = new Set<number>()
  #rejected: readonly RejectedRow[] | null = null

  constructor(parts: TransmitterParts) {
    this.#parts = parts
  }

  /** rows the last transmit left out, and why (D3) */
  get lastRejected(): readonly RejectedRow[] {
    return this.#rejected ?? this.#parts.core.lastRejected
  }

  /** Throws ALL_READINGS_REFUSED, BAD_ID, BAD_TIME, SECURE_REQUIRED. */
  transmit(
    sensors: readonly Reading[],
    device: string,
    status: string,
    options: TransmitOptions,
    aid: number,
  ): TransmitResult {
    const { core, log, protocol, security, time } = this.#parts
    security.check(aid, sensors.length)
    const tMs = time.onWire(options, security.client.sessions.hasSecureDict(aid))
    const full = protocol.getStrategy(aid, this.#fullSent.has(aid)) === 'FULL_PACKET'
    const extras = options.geohash !== undefined || options.url !== undefined || options.msg !== undefined
    const packet = extras
      ? this.#withExtras(sensors, device, status, tMs, aid, full, options)
      : core.transmitFast(sensors, device, status, tMs, aid, full ? 'FULL' : 'DIFF')
    if (!extras) this.#rejected = null
    security.packetMade(packet, aid, tMs)
    protocol.commitSuccess(aid)
    const name = strategyName(packet[0]!)
    if (name === 'FULL_PACKET') this.#fullSent.add(aid)
    if (log) log.appendFact(this.#fact(sensors, device, status, tMs, aid, options), { medium: 'local' })
    return [packet, aid, name]
  }

  #fact(
    sensors: readonly Reading[],
    device: string,
    status: string,
    t_raw: number,
    aid: number,
    { geohash, url, msg }: TransmitOptions,
  ): Fact {
    return this.#parts.standardizer.standardizeToFact(device, status, sensors, { t_raw, geohash, url, msg }, aid)
  }

  /** Free parts belong to the template, so this goes the long way: fact, text, frame. */
  #withExtras(
    sensors: readonly Reading[],
    device: string,
    status: string,
    tMs: number,
    aid: number,
    full: boolean,
    options: TransmitOptions,
  ): Buffer {
    const { core, standardizer } = this.#parts
    const fact = this.#fact(sensors, device, status, tMs, aid, options)
    this.#rejected = standardizer.lastRejected
    if (sensors.length > 0 && fact.sensors.length === 0)
      throw new OsError('ALL_READINGS_REFUSED', `no reading of ${device} can be sent: ${this.#rejected[0]!.reason}`, {
        details: { rejected: this.#rejected },
      })
    if (!standardizer.sensorIds) fact.sensors = []
    core.fusion.localId = aid
    return core.fusion.runEngine(`${aid};${core.engine.compress(factToDict(fact), false)}`, full ? 'FULL' : 'DIFF')
  }
}
