// What is known of the readings on a card, for a copy of it, and when a machine gets another one.
import { type Device, LATE_ANSWER_MS, type Memory, type Place } from './device'

/** For a copy of its card. */
export function memoryOf(places: Iterable<[Device, Place]>): Memory {
  return new Map(
    [...places].map(([device, { list, committed, refused }]) => [
      device,
      { list: new Map(list), committed: new Set(committed), refused: new Set(refused) },
    ]),
  )
}

/**
 * A machine has another card: what only the previous one had is lost, and everything else is as it was when the copy
 * was made.
 */
export function insertCard(places: Iterable<[Device, Place]>, now: number, memory?: Memory): void {
  for (const [device, place] of places) {
    const { before, list, numbers, committed, gone, refused, forgotten } = place
    numbers.clear()
    const then = memory?.get(device)
    place.ahead.clear()
    place.goneAt = now
    if (before) {
      for (const n of committed) if (!then?.committed.has(n)) gone.add(n)
      // with a broker: until a later reading has arrived
      place.blindUntil = place.byBroker ? Number.POSITIVE_INFINITY : place.goneAt + LATE_ANSWER_MS
      // the sender resends what it still has, unless it was acknowledged
      for (const [n, logged] of before.list) if (gone.has(n) && before.committed.has(n)) before.ahead.set(n, logged)
    }
    list.clear()
    committed.clear()
    for (const n of refused) if (!then?.refused.has(n)) forgotten.add(n)
    for (const [n, logged] of then?.list ?? []) {
      list.set(n, logged)
      numbers.set(logged.seq, n)
    }
    for (const n of then?.committed ?? []) committed.add(n)
  }
}

/** The uplinks of a machine are done with a record. */
export function settleOn(places: Iterable<[Device, Place]>, seq: number, now: number): void {
  for (const [, { numbers, settled }] of places) {
    const n = numbers.get(seq)
    if (n !== undefined && !settled.has(n)) settled.set(n, now)
  }
}

/** The upstream refused a record of a machine, which a broker had acknowledged: its card notes that. */
export function refuseOn(places: Iterable<[Device, Place]>, seq: number): void {
  for (const [, { numbers, refused, forgotten }] of places) {
    const n = numbers.get(seq)
    if (n === undefined) continue
    refused.add(n)
    forgotten.delete(n)
  }
}
