// Groups the registers of a source into as few requests as possible. Pure. Adjacent registers, or those at most `gap`
// apart, share one request; gaps are off by default, because many devices refuse a request that includes an address
// they lack.
import { MAX_BITS, MAX_REGISTERS, readRequest, type Table } from './codec'
import { type NumberType, widthOf } from './values'

export interface RegisterPlace {
  readonly table: Table
  readonly address: number
  readonly type: NumberType
}

export interface RegisterBlock {
  readonly table: Table
  readonly address: number
  /** registers or bits */
  readonly count: number
  readonly request: Uint8Array
  /** indexes of the places that this block answers */
  readonly members: readonly number[]
}

const isBits = (table: Table): boolean => table === 'coil' || table === 'discrete'

interface PlanOptions {
  /** unused addresses that may be read to merge two requests */
  gap?: number
  /** most registers in one request, for devices that allow fewer than the standard's 125 */
  most?: number
}

/** Every place is in exactly one block; blocks in the order of table and address. */
export function plan(
  places: readonly RegisterPlace[],
  { gap = 0, most = MAX_REGISTERS }: PlanOptions = {},
): RegisterBlock[] {
  const order = places
    .map((place, index) => ({ ...place, index, end: place.address + (isBits(place.table) ? 1 : widthOf(place.type)) }))
    .sort((a, b) => (a.table < b.table ? -1 : a.table > b.table ? 1 : a.address - b.address || a.index - b.index))
  const blocks: RegisterBlock[] = []
  let open: typeof order = []
  let end = 0
  const close = (): void => {
    if (open.length > 0) blocks.push(block(open, end))
    open = []
  }
  for (const place of order) {
    const [first] = open
    const limit = isBits(place.table) ? MAX_BITS : most
    const joins =
      first &&
      first.table === place.table &&
      place.address <= end + gap &&
      Math.max(end, place.end) - first.address <= limit
    if (!joins) {
      close()
      end = 0
    }
    open.push(place)
    end = Math.max(end, place.end)
  }
  close()
  return blocks
}

function block(members: readonly { table: Table; address: number; index: number }[], end: number): RegisterBlock {
  const { table, address } = members[0]!
  const count = end - address
  return { table, address, count, request: readRequest(table, address, count), members: members.map(m => m.index) }
}
