// Makes the fact of a row of a template. Hot path: only the fact is allocated.
import { NO_VALUE } from '../wire/base62'
import { fromWire } from './compress'
import type { Fact, SensorFact } from './fact'
import type { ReceiverCounters } from './received'
import type { SlotHistory } from './slots'

export class FactMaker {
  constructor(
    readonly precision: number,
    readonly counters: ReceiverCounters,
  ) {}

  /** `rebuilt`: only values in the frame are known, and no value's text has enough information (X33). */
  make(history: SlotHistory, aid: number, tRaw: number, rebuilt = false): Fact {
    const { shape, count, ids } = history
    // allocated at its size: V8 extends a growing array by 17 elements
    const sensors = new Array<SensorFact>(count)
    let known = 0
    for (let i = 0; i < count; i++) {
      if (!history.knows(i)) continue
      const info = history.meta(i)
      const n = history.number(i)
      const value = n !== NO_VALUE ? fromWire(n, this.precision, info) : info.failed || rebuilt ? null : info.offset
      if (info.ambiguous) this.counters.unitAmbiguous++
      sensors[known++] = { id: ids[i]!, status: info.status, unit: info.unit, value }
    }
    if (known < count) sensors.length = known
    this.counters.facts++
    const fact: Fact = { id: shape.id, state: shape.state, tRaw, aid, sensors }
    if (shape.extras) fact.extras = shape.extras
    return fact
  }
}
