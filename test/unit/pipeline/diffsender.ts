// A sender of the property tests of DIFF (R10): its devices, its keys and its encoder, and what a scenario may contain.
import type { Fact, SensorFact } from '../../../src/pipeline/fact'
import type { UplinkEncoder } from '../../../src/pipeline/sender'
import type { ManualClock } from '../../lib/manual'
import { BothEncoders } from './both-cores'
import { units } from './units'

export interface Scenario {
  name: string
  packets: number
  senders?: number
  /** every sender has the same AID (delivery exchange only) */
  sharedAid?: boolean
  /** devices of each sender; above 199 TIDs are reused */
  devices?: number
  precision?: number
  diffBase?: 'sticky' | 'last'
  /** the frames are sent in the delivery exchange and are acknowledged */
  exchange?: boolean
  nacks?: boolean
  drop?: number
  double?: number
  /** steps a packet may be delayed; 0 keeps the order */
  delay?: number
  /** sometimes any frame of the past arrives again */
  unbounded?: boolean
  restartSender?: number
  restartReceiver?: number
  receiver?: 'own' | 'fusion'
  /** false: the receiver stores no templates in files */
  registry?: boolean
  /** share of facts that are older than what was already sent */
  late?: number
  /** probability at each step that a sender changes its key, or returns to plaintext */
  rekey?: number
  /** memory of the receiver for templates, in bytes: little, so that it evicts */
  maxBytes?: number
  maxSources?: number
  /** templates evicted from memory are kept in files */
  spill?: boolean
}

export const FULL_EVERY = 20
const FULL_INTERVAL_S = 30

/** What a sender takes from its world. */
interface Surroundings {
  readonly scenario: Scenario
  readonly clock: ManualClock
  /** of each sender */
  readonly devices: number
  int(n: number): number
  sensors(): SensorFact[]
}

export class Sender {
  encoder: UplinkEncoder
  epoch: number
  readonly devices: Fact[] = []
  nackedAt = Number.NEGATIVE_INFINITY
  readonly again: Fact[] = []
  key: Uint8Array | null = null
  /** as a server has them: the newest, and those it named before; sometimes it lost the newest */
  known: Uint8Array[] = []
  readonly uses = new Map<number, { content: string; life: number }>()
  constructor(
    readonly world: Surroundings,
    readonly aid: number,
    readonly name: string,
  ) {
    this.encoder = this.#start(1)
    this.epoch = world.int(2 ** 32)
    for (let k = 0; k < world.devices; k++)
      this.devices.push({ id: `${name}${k}`, state: 'ONLINE', tRaw: 0, aid, sensors: world.sensors() })
  }

  #start(firstTid: number): UplinkEncoder {
    const { clock, scenario } = this.world
    return new BothEncoders({
      aid: this.aid,
      units,
      clock,
      precision: scenario.precision,
      diffBase: scenario.diffBase ?? 'sticky',
      fullEvery: FULL_EVERY,
      fullIntervalS: FULL_INTERVAL_S,
      acknowledged: scenario.exchange,
      firstTid,
    })
  }

  rekey(): void {
    this.key = this.world.int(4) === 0 ? null : Uint8Array.from({ length: 32 }, () => this.world.int(256))
    if (this.key && this.world.int(3) > 0) this.known = [this.key, ...this.known].slice(0, 4)
    this.encoder.keyFrameNext()
  }

  restart(): void {
    this.encoder = this.#start(this.encoder.nextTid)
    this.epoch = this.world.int(2 ** 32)
    this.again.length = 0
  }
}
