// One page of rows over several windows: windows whose time ranges do not overlap follow one another, and rows before the
// page are counted without reading them; for overlapping windows the keys are merged and only the rows of the page are read.
import type { DeviceList, PacketRecord, SensorRecord } from './shapes'
import { type Filter, KEY, textOf, type What, type WindowRows } from './window'

/** The rows of one window that match a filter. */
export interface Piece {
  readonly count: number
  /** bounds of the rows' times; not necessarily exact */
  readonly lo: number
  readonly hi: number
  /** loads them */
  readonly rows: () => WindowRows
}

/** a key and the number of its window */
const PLACE = KEY + 1

/** Rows `offset` to `offset + limit` of all pieces in the order of `what`. */
export function pageOf(what: What, filter: Filter, pieces: readonly Piece[], limit: number, offset: number) {
  const rows: (PacketRecord | SensorRecord)[] = []
  let skip = offset
  for (const group of meeting(pieces)) {
    const count = group.reduce((sum, piece) => sum + piece.count, 0)
    if (skip >= count) {
      skip -= count
      continue
    }
    const wanted = limit - rows.length
    if (group.length === 1) rows.push(...group[0]!.rows().page(what, filter, wanted, skip, group[0]!.count))
    else rows.push(...merged(what, filter, group, wanted, skip))
    skip = 0
    if (rows.length >= limit) break
  }
  return rows
}

/** Groups windows with overlapping times, newest group first, newest window of a group first. */
function meeting(pieces: readonly Piece[]): Piece[][] {
  const groups: Piece[][] = []
  let lo = Number.NEGATIVE_INFINITY
  for (const piece of [...pieces].sort((a, b) => b.hi - a.hi)) {
    if (groups.length > 0 && piece.hi >= lo) groups.at(-1)!.push(piece)
    else groups.push([piece])
    lo = groups.at(-1)!.length === 1 ? piece.lo : Math.min(lo, piece.lo)
  }
  return groups
}

function merged(what: What, filter: Filter, group: readonly Piece[], limit: number, skip: number) {
  const wanted = skip + limit
  let places: Float64Array = new Float64Array(0)
  for (const [k, piece] of group.entries()) {
    // no older row can be before the last wanted one
    if (places.length >= wanted * PLACE && places[(wanted - 1) * PLACE]! > piece.hi) break
    places = merge(places, piece.rows().keys(what, filter, wanted), k, wanted)
  }
  const rows: (PacketRecord | SensorRecord)[] = []
  // window by window, so that none is loaded twice
  for (const [k, piece] of group.entries())
    for (let at = skip; at * PLACE < places.length && at < wanted; at++) {
      const [, index, seq, of] = places.subarray(at * PLACE, (at + 1) * PLACE)
      if (of === k) rows[at - skip] = piece.rows().row(what, seq!, index!)!
    }
  return rows
}

/** Merges two sorted lists, at most `most` entries. */
function merge(places: Float64Array, keys: Float64Array, piece: number, most: number): Float64Array {
  const length = Math.min(most, places.length / PLACE + keys.length / KEY)
  const out = new Float64Array(length * PLACE)
  let a = 0
  let b = 0
  for (let at = 0; at < out.length; at += PLACE) {
    const takeA = b >= keys.length || (a < places.length && before(places, a, keys, b))
    if (takeA) {
      out.set(places.subarray(a, a + PLACE), at)
      a += PLACE
    } else {
      out.set(keys.subarray(b, b + KEY), at)
      out[at + KEY] = piece
      b += KEY
    }
  }
  return out
}

/** time descending, index in the packet ascending, seq descending */
const before = (a: Float64Array, i: number, b: Float64Array, j: number): boolean =>
  a[i] !== b[j] ? a[i]! > b[j]! : a[i + 1] !== b[j + 1] ? a[i + 1]! < b[j + 1]! : a[i + 2]! > b[j + 2]!

/** in the column unsynced: a fact with a time in the future, which does not update last_seen (X36) */
export const AHEAD = 2
/** the sums of a sealed window do not show which facts were in the future: more seconds ahead of now than any valid fact */
const AHEAD_S = 86_400

/** A page of devices of all windows, last seen first; `newestS`: when the newest record was written. */
export function devicesOf(
  open: WindowRows,
  newestS: number,
  limit: number,
  offset: number,
): Pick<DeviceList, 'devices' | 'total'> {
  const total = open.number(
    'SELECT COUNT(*) FROM (SELECT device_id FROM os_packets UNION SELECT device_id FROM sums.packets)',
  )
  const rows = open.rows(
    `SELECT CAST(device_id AS BLOB), MAX(hi) AS seen, SUM(n) FROM (
         SELECT device_id, COALESCE(MAX(CASE WHEN unsynced <> ${AHEAD} THEN timestamp_raw END), MAX(created_at)) AS hi,
           COUNT(*) AS n FROM os_packets GROUP BY device_id
         UNION ALL SELECT device_id, CASE WHEN hi > MAX(CAST(strftime('%s', 'now') AS INTEGER) + ${AHEAD_S}, ?) THEN lo ELSE hi END, n FROM sums.packets
       ) GROUP BY device_id ORDER BY seen DESC, device_id LIMIT ? OFFSET ?`,
    [newestS + AHEAD_S, limit, offset],
  )
  const devices = rows.map(([device_id, last_seen, packet_count]) => ({
    device_id: textOf(device_id!),
    last_seen: last_seen as number,
    packet_count: packet_count as number,
  }))
  return { devices, total }
}
