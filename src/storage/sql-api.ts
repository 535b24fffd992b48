// The used parts of sql.js as own types: its types are not part of the package, and a TypeScript program that imports the
// library would not compile without them.

export type SqlValue = number | string | Uint8Array | null

export type SqlValues = SqlValue[] | Record<string, SqlValue> | null

export interface Statement {
  bind(values?: SqlValues): boolean
  step(): boolean
  get(): SqlValue[]
  run(values?: SqlValues): void
  reset(): void
  free(): boolean
}

export interface SqlDatabase {
  exec(sql: string): { columns: string[]; values: SqlValue[][] }[]
  prepare(sql: string): Statement
  getRowsModified(): number
  export(): Uint8Array
  close(): void
}
