// A CAN interface in memory for the source `can`, and a DBC file with every kind of signal.

import type { CanPort, CanPorts } from '../../../../../drivers/can/signals/feed'
import { OsError } from '../../../../../src/lib/errors'
import { AGAIN } from '../../../../../src/native'
import type { CanFilter, CanFrames, CanRawOptions } from '../../../../../src/native/can'
import type { CanLink } from '../../../../../src/native/can-link'

export const DBC = `BO_ 291 Basics: 8 Engine
 SG_ Coolant : 7|16@0- (0.1,-40) [-40|215] "degC" X
 SG_ Speed : 16|12@1+ (0.0625,0) [0|250] "km/h" X
 SG_ Gear : 28|3@1+ (1,0) [0|7] "" X
 SG_ Steps : 32|8@1+ (1,0) [0|0] "steps" X
BO_ 2364540158 EEC1: 8 Engine
 SG_ EngSpeed : 24|16@1+ (0.125,0) [0|8031.875] "rpm" X
BO_ 2566834942 DM1: 16 Engine
 SG_ Speed : 0|8@1+ (1,0) [0|0] "" X
 SG_ Last : 88|8@1+ (1,0) [0|0] "V" X
BO_ 300 Mux: 8 Engine
 SG_ Which M : 0|8@1+ (1,0) [0|0] "" X
 SG_ One m1 : 8|8@1+ (1,0) [0|0] "bar" X
 SG_ Two m2 : 8|8@1+ (1,0) [0|0] "bar" X
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_ "VFrameFormat" BO_ 2364540158 3;
BA_ "VFrameFormat" BO_ 2566834942 3;
VAL_ 291 Gear 0 "Neutral" 1 "Gear one" 7 "Error" ;
`

export const LINK: CanLink = {
  index: 3,
  up: true,
  running: true,
  fd: false,
  kind: 'can',
  state: 'error-active',
  tx_errors: 0,
  rx_errors: 0,
  bitrate: 500_000,
  data_bitrate: 0,
  restart_ms: 100,
  bus_errors: 0,
  warnings: 0,
  passives: 0,
  bus_offs: 0,
  arbitration_lost: 0,
  restarts: 0,
}

export class Bus implements CanPorts {
  opened: { name: string; filters: readonly CanFilter[]; fd: boolean } | undefined
  closed = 0
  dropped = 0
  granted = 8 << 20
  state: Partial<CanLink> = {}
  #queue: [number, string][] = []
  #error = 0
  #wake: () => void = () => undefined
  #changed: () => void = () => undefined
  link(name: string): CanLink {
    if (name === 'can9') throw new OsError('NOT_FOUND', 'can9')
    return { ...LINK, ...this.state }
  }
  errors(): ReturnType<CanPorts['errors']> {
    return { receive: () => AGAIN, watch: () => undefined, close: () => undefined }
  }
  changes(changed: () => void): { close(): void } {
    this.#changed = changed
    return { close: () => undefined }
  }
  change(state: Partial<CanLink>): void {
    this.state = state
    this.#changed()
  }
  open(name: string, { filters = [], fd = false }: CanRawOptions): CanPort {
    this.opened = { name, filters, fd }
    this.#error = 0
    const dropped = (): number => this.dropped
    return {
      get dropped() {
        return dropped()
      },
      receiveBuffer: this.granted,
      watch: (_, wake) => {
        this.#wake = () => wake(1)
      },
      receive: (frames: CanFrames) => this.#fill(frames),
      close: () => {
        this.closed++
      },
    }
  }
  /** Frames as id and hex: those that pass the filters are received. */
  arrive(...frames: [id: number, hex: string][]): void {
    const passes = ([id]: [number, string]): boolean =>
      this.opened!.filters.some(filter => ((id ^ filter.id) & filter.mask) === 0)
    this.#queue.push(...frames.filter(passes))
    this.#wake()
  }
  fail(error: number): void {
    this.#error = error
    this.#wake()
  }
  #fill(frames: CanFrames): number {
    if (this.#error !== 0) return this.#error
    const some = this.#queue.splice(0, frames.capacity)
    for (const [slot, [id, hex]] of some.entries()) frames.set(slot, id, Buffer.from(hex, 'hex'))
    return some.length === 0 ? AGAIN : some.length
  }
}
