// Writes the open window: its rows, and in RAM the record of each uuid and the sums of the window's summary. An SQLite index
// and a query at the end would cost more than the rows themselves.

import type { LogRecord } from '../log'
import type { SqlValue } from './sql-api'
import type { Inserter } from './sqlite'
import { WindowSums } from './sums'
import type { WindowRows } from './window'

/** approximate bytes per entry of the uuid map */
const PLACE_BYTES = 40

const keyOf = (uuid: Uint8Array): string => Buffer.from(uuid.buffer, uuid.byteOffset, 16).toString('latin1')

export class OpenWindowRows {
  readonly sums = new WindowSums()
  readonly #packet: Inserter
  readonly #sensor: Inserter
  /** uuid → seq */
  readonly #places = new Map<string, number>()

  constructor(inserter: (text: string) => Inserter) {
    this.#packet = inserter('INSERT OR IGNORE INTO os_packets VALUES (?,?,?,?,?,?,?,?,?,?)')
    this.#sensor = inserter('INSERT INTO os_sensors VALUES (?,?,?,?,?,?)')
  }

  get bytes(): number {
    return this.#places.size * PLACE_BYTES
  }

  /** Writes a packet of `seconds`; false: its uuid or seq already exists. */
  add({ seq, fact, wallMs, boot }: LogRecord, uuid: Uint8Array, tRaw: number, unsynced: number): boolean {
    const { id, state, sensors, extras } = fact!
    const key = keyOf(uuid)
    if (this.#places.has(key)) return false
    const seconds = Math.floor(tRaw / 1000)
    const packet = this.#packet
    packet.number(seq)
    packet.blob(uuid)
    packet.text(id)
    packet.text(state)
    packet.number(seconds)
    packet.number(Math.floor(wallMs / 1000))
    packet.number(tRaw)
    if (extras) packet.text(JSON.stringify(extras))
    else packet.blob(null)
    packet.number(boot)
    packet.number(unsynced)
    if (packet.run() === 0) return false
    this.#places.set(key, seq)
    this.sums.add(fact!, seconds)
    const row = this.#sensor
    for (let k = 0; k < sensors.length; k++) {
      const { id: sensor, status, value, unit } = sensors[k]!
      row.number(seq)
      row.number(k + 1)
      row.text(sensor)
      row.text(status)
      if (value === null) row.blob(null)
      else row.number(value)
      row.text(unit)
      row.run()
    }
    return true
  }

  seqOf(uuid: Uint8Array): number | undefined {
    return this.#places.get(keyOf(uuid))
  }

  /** A new window begins. */
  clear(): void {
    this.#places.clear()
    this.sums.clear()
  }

  /** The rows were changed. */
  changed(rows: WindowRows): void {
    this.sums.drop()
    this.#places.clear()
    for (const [uuid, seq] of rows.rows('SELECT packet_uuid, seq FROM os_packets'))
      this.#places.set(keyOf(uuid as Uint8Array), seq as number)
  }

  /** Packets are removed. */
  left(uuids: readonly SqlValue[][]): void {
    this.sums.drop()
    for (const [uuid] of uuids) this.#places.delete(keyOf(uuid as Uint8Array))
  }
}
