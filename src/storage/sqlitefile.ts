// Writes an ordinary SQLite file page by page, in order (the format is public: sqlite.org/fileformat2). sql.js holds a whole
// database in RAM; this writer needs one page per level of each tree, whatever the file's size. Rows and keys are added in
// ascending order, so a page is filled once and never changed; page 1, which names the trees, is written last: without it the
// file is invalid.
//
// Errors: OutFile reports failed writes; its owner removes the file.

import type { OutFile } from './output-file'
import { encodeRecord, varint } from './sqliterecord'

const PAGE = 4096
const HEAD = 100
/** SQLite locks bytes of this page and never stores anything there */
const LOCKED_PAGE = 0x4000_0000 / PAGE + 1

const LEAF_TABLE = 13
const INNER_TABLE = 5
const LEAF_INDEX = 10
const INNER_INDEX = 2
/** maximum bytes of a row in its leaf, and how many stay there if the remaining ones overflow */
const ROW_MOST = PAGE - 35
const ROW_LEAST = Math.floor(((PAGE - 12) * 32) / 255) - 23

/** An entry of sqlite_schema. */
interface SchemaRow {
  readonly type: 'table' | 'index'
  readonly name: string
  readonly table: string
  readonly root: number
  readonly sql: string | null
}

/** The page number after page `number`. */
export const pageAfter = (number: number): number => number + (number + 1 === LOCKED_PAGE ? 2 : 1)

export class SqliteFile {
  readonly #out: OutFile
  #next = 2

  constructor(out: OutFile) {
    this.#out = out
    out.write(Buffer.alloc(PAGE))
  }

  get bytes(): number {
    return (this.#next - 1) * PAGE
  }

  /** the number of the next page */
  get upcoming(): number {
    return this.#next
  }

  append(page: Uint8Array): number {
    const number = this.#next
    this.#out.write(page)
    this.#next = pageAfter(number)
    if (this.#next > number + 1) this.#out.write(Buffer.alloc(PAGE))
    return number
  }

  /** Writes page 1; the file is then complete and on the medium. */
  finish(schema: readonly SchemaRow[]): void {
    const cells = schema.map(({ type, name, table, root, sql }, k) => {
      const row = encodeRecord([type, name, table, root, sql])
      return Buffer.concat([varint(row.length), varint(k + 1), row])
    })
    const page = pageOf(LEAF_TABLE, cells, undefined, HEAD)
    page.write('SQLite format 3\0', 0, 'latin1')
    page.writeUInt16BE(PAGE, 16)
    page.set([1, 1, 0, 64, 32, 32], 18)
    const pages = this.#next - 1
    for (const [at, value] of [
      [24, 1], // changes
      [28, pages],
      [40, 1], // schema cookie
      [44, 4], // schema format
      [56, 1], // UTF-8
      [92, 1], // the change for which the number of pages holds
      [96, 3_040_000],
    ] as const)
      page.writeUInt32BE(value, at)
    this.#out.finish(page)
  }
}

interface Inner {
  cells: { child: number; key: Buffer }[]
  bytes: number
}

/** One b-tree, filled from left to right. */
export class BTree {
  readonly #file: SqliteFile
  readonly #types: readonly [leaf: number, inner: number]
  #leaf: Buffer[] = []
  #bytes = 0
  #last!: number
  readonly #inner: Inner[] = []

  constructor(file: SqliteFile, kind: 'table' | 'index') {
    this.#file = file
    this.#types = kind === 'table' ? [LEAF_TABLE, INNER_TABLE] : [LEAF_INDEX, INNER_INDEX]
  }

  /** Adds a row of a table; rowids ascend. */
  addRow(rowid: number, row: Buffer): void {
    const cell = Buffer.concat([varint(row.length), varint(rowid), ...this.#spilled(row)])
    if (!this.#fits(cell)) this.#up(0, this.#closeLeaf(), varint(this.#last))
    this.#push(cell)
    this.#last = rowid
  }

  /** Adds a short key of an index; keys ascend. */
  addKey(key: Buffer): void {
    const cell = Buffer.concat([varint(key.length), key])
    if (!this.#fits(cell)) {
      // an index has a key between two leaves
      const between = this.#leaf.pop()!
      this.#up(0, this.#closeLeaf(), between)
    }
    this.#push(cell)
  }

  /** Writes the open pages; returns the page number of the root. */
  finish(): number {
    return this.#inner.reduce((child, level) => this.#closeInner(level, child), this.#closeLeaf())
  }

  #fits(cell: Buffer): boolean {
    return this.#bytes + cell.length + 2 <= PAGE - 8
  }

  #push(cell: Buffer): void {
    this.#leaf.push(cell)
    this.#bytes += cell.length + 2
  }

  #closeLeaf(): number {
    const page = this.#file.append(pageOf(this.#types[0], this.#leaf))
    this.#leaf = []
    this.#bytes = 0
    return page
  }

  /** `child` is full, and no key in it is greater than `key`. */
  #up(at: number, child: number, key: Buffer): void {
    const level = (this.#inner[at] ??= { cells: [], bytes: 0 })
    const size = key.length + 6
    if (level.bytes + size > PAGE - 12) {
      const last = level.cells.pop()!
      this.#up(at + 1, this.#closeInner(level, last.child), last.key)
    }
    level.cells.push({ child, key })
    level.bytes += size
  }

  #closeInner(level: Inner, right: number): number {
    const cells = level.cells.map(({ child, key }) => {
      const cell = Buffer.alloc(4 + key.length)
      cell.writeUInt32BE(child)
      key.copy(cell, 4)
      return cell
    })
    level.cells = []
    level.bytes = 0
    return this.#file.append(pageOf(this.#types[1], cells, right))
  }

  /**
   * The part of a row in the leaf; the remaining bytes of a long row are written to overflow pages, each of which names the
   * next.
   */
  #spilled(row: Buffer): Buffer[] {
    if (row.length <= ROW_MOST) return [row]
    const kept = ROW_LEAST + ((row.length - ROW_LEAST) % (PAGE - 4))
    let at = kept <= ROW_MOST ? kept : ROW_LEAST
    const cell = Buffer.alloc(at + 4)
    row.copy(cell, 0, 0, at)
    cell.writeUInt32BE(this.#file.upcoming, at)
    while (at < row.length) {
      const page = Buffer.alloc(PAGE)
      at += row.copy(page, 4, at, at + PAGE - 4)
      if (at < row.length) page.writeUInt32BE(pageAfter(this.#file.upcoming))
      this.#file.append(page)
    }
    return [cell]
  }
}

/**
 * A b-tree page; `right`: the last child of an inner page; `from`: its offset in the page (page 1 starts with the file
 * header).
 */
function pageOf(type: number, cells: readonly Buffer[], right?: number, from = 0): Buffer {
  const page = Buffer.alloc(PAGE)
  let pointer = from + (right === undefined ? 8 : 12)
  let top = PAGE
  for (const cell of cells) {
    top -= cell.length
    cell.copy(page, top)
    pointer = page.writeUInt16BE(top, pointer)
  }
  page[from] = type
  page.writeUInt16BE(cells.length, from + 3)
  page.writeUInt16BE(top, from + 5)
  if (right !== undefined) page.writeUInt32BE(right, from + 8)
  return page
}
