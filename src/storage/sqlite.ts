// sql.js with a faster way to write rows: sql.js allocates and frees memory for every text of every row, which takes longer
// than SQLite needs for the row. Here values are copied to one reused buffer in SQLite's memory.

import initSqlJs from 'sql.js/dist/sql-wasm.js'
import type { SqlDatabase } from './sql-api'

/** The used parts of sql.js's module: SQLite's own functions, by pointer. */
interface SqlModule {
  readonly Database: new (bytes?: Uint8Array) => SqlDatabase & { readonly db: number }
  readonly memory: Memory
  /** opened so far; a process has one sql.js module */
  databases?: number
  _malloc(bytes: number): number
  _free(at: number): void
  UTF8ToString(at: number): string
  _sqlite3_prepare_v2(db: number, text: number, bytes: number, statement: number, tail: number): number
  _sqlite3_bind_int(statement: number, column: number, value: number): number
  _sqlite3_bind_double(statement: number, column: number, value: number): number
  _sqlite3_bind_text(statement: number, column: number, at: number, bytes: number, kept: 0): number
  _sqlite3_bind_blob(statement: number, column: number, at: number, bytes: number, kept: 0): number
  _sqlite3_step(statement: number): number
  _sqlite3_reset(statement: number): number
  _sqlite3_changes(db: number): number
  _sqlite3_errmsg(db: number): number
}

/** part of the global WebAssembly, which is missing in the types of Node */
interface Memory {
  readonly buffer: ArrayBuffer
}
interface Instance {
  readonly exports: Record<string, unknown>
}
interface WebAssemblyApi {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object, imports: object) => Instance
  readonly Memory: new () => Memory
}

/** usual size of one row's values */
const USUAL = 4096
const DONE = 101

const encoder = new TextEncoder()

/** An INSERT, prepared once: its values in order, then run(). */
export class Inserter {
  readonly #sql: SqlModule
  readonly #db: number
  readonly #statement: number
  readonly #place: number
  /** buffers of longer values, until the row is written */
  readonly #more: number[] = []
  #heap = new Uint8Array(0)
  #used = 0
  #column = 0
  #wrong = 0

  constructor(sql: SqlModule, db: number, text: string) {
    this.#sql = sql
    this.#db = db
    this.#place = sql._malloc(USUAL)
    const at = this.#room(text.length + 4)
    this.#heap.set(encoder.encode(text), at + 4)
    this.#wrong = sql._sqlite3_prepare_v2(db, at + 4, text.length, at, 0)
    this.#statement = new DataView(sql.memory.buffer).getUint32(at, true)
    this.#check()
    this.#used = 0
  }

  number(value: number): void {
    const { _sqlite3_bind_int, _sqlite3_bind_double } = this.#sql
    const bind = value === (value | 0) ? _sqlite3_bind_int : _sqlite3_bind_double
    this.#wrong |= bind(this.#statement, ++this.#column, value)
  }

  text(value: string): void {
    const at = this.#room(value.length * 3)
    const heap = this.#heap
    let length = 0
    for (; length < value.length; length++) {
      const code = value.charCodeAt(length)
      if (code > 127) {
        length = encoder.encodeInto(value, heap.subarray(at)).written
        break
      }
      heap[at + length] = code
    }
    this.#wrong |= this.#sql._sqlite3_bind_text(this.#statement, ++this.#column, at, length, 0)
  }

  /** null: NULL. */
  blob(value: Uint8Array | null): void {
    const length = value?.length ?? 0
    const at = value ? this.#room(length) : 0
    if (value) this.#heap.set(value, at)
    this.#wrong |= this.#sql._sqlite3_bind_blob(this.#statement, ++this.#column, at, length, 0)
  }

  /** Inserts the row and returns the number of new rows. Throws SQLite's error. */
  run(): number {
    const sql = this.#sql
    const code = sql._sqlite3_step(this.#statement)
    this.#wrong |= sql._sqlite3_reset(this.#statement)
    if (code !== DONE) this.#wrong |= code
    this.#ended()
    this.#check()
    return sql._sqlite3_changes(this.#db)
  }

  /** Prepares for the next row. */
  #ended(): void {
    this.#used = 0
    this.#column = 0
    while (this.#more.length > 0) this.#sql._free(this.#more.pop()!)
  }

  #check(): void {
    if (this.#wrong === 0) return
    this.#wrong = 0
    throw new Error(this.#sql.UTF8ToString(this.#sql._sqlite3_errmsg(this.#db)))
  }

  /** Address of that many bytes, valid until the row is written. */
  #room(bytes: number): number {
    let at = this.#place + this.#used
    if (this.#used + bytes <= USUAL) this.#used += bytes
    else {
      at = this.#sql._malloc(bytes)
      if (at === 0) {
        this.#ended()
        throw new Error('SQLite has no memory left')
      }
      this.#more.push(at)
    }
    // the memory was grown, so its buffer was replaced
    if (this.#heap.length === 0) this.#heap = new Uint8Array(this.#sql.memory.buffer)
    return at
  }
}

/** A database whose rows are written without the binding of sql.js. */
export interface OpenWindow extends SqlDatabase {
  inserter(text: string): Inserter
}

/** sql.js whose databases have `inserter`; `wasm`: its program. */
export async function loadSqlite(wasm: Uint8Array) {
  const { Module, Instance, Memory } = (globalThis as unknown as { WebAssembly: WebAssemblyApi }).WebAssembly
  // becomes the module
  const setup = {
    memory: undefined as Memory | undefined,
    // SQLite's own functions: those that sql.js adds by default warn on stderr when used
    useOldExtensionFunctions: false,
    // the only access to its memory
    instantiateWasm(imports: object, done: (instance: Instance) => void) {
      const instance = new Instance(new Module(wasm), imports)
      setup.memory = Object.values(instance.exports).find(one => one instanceof Memory) as Memory
      done(instance)
      return {}
    },
  }
  const sql = (await initSqlJs(setup as object)) as unknown as SqlModule
  let empty: Uint8Array | undefined
  /** An empty database file with room to grow: sql.js copies a file completely whenever it is too short. */
  function roomy(bytes: number): Uint8Array {
    if (!empty) {
      const db = new sql.Database()
      db.exec('PRAGMA user_version=1')
      empty = db.export()
      db.close()
    }
    const file = new Uint8Array(Math.max(bytes, empty.length))
    file.set(empty)
    return file
  }
  return class Database extends sql.Database implements OpenWindow {
    /** `room`: bytes to which an empty database can grow without copying. */
    constructor(bytes?: Uint8Array, room?: number) {
      super(room === undefined ? bytes : roomy(room))
    }

    /** sql.js draws random file names: a name used by another database would open that database */
    set filename(_drawn: string) {
      sql.databases = (sql.databases ?? 0) + 1
      Object.defineProperty(this, 'filename', { value: `window-${sql.databases}` })
    }

    inserter(text: string): Inserter {
      return new Inserter(sql, this.db, text)
    }
  }
}
