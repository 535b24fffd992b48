// audit: every route, command, configuration key, plugin and plugin command with its test status. The build (scan.mjs)
// searches the test files for each name; here the result is compared with this program. A name without a test is a gap, and a
// gap fails the audit; so does a list of another build.
import packed from 'self-test-audit'
import { unpack } from '../unpack'
import { digestOf, type Inventory, type InventoryKind, KINDS } from './inventory'

interface AuditItem {
  readonly kind: InventoryKind
  readonly name: string
  readonly status: 'tested' | 'gap'
  /** test files that name it */
  readonly tests: number
  /** one of them, relative to test/ */
  readonly file?: string
}

export interface AuditReport {
  readonly ok: boolean
  /** `tested` and `gaps` of each kind */
  readonly counts: Readonly<Record<InventoryKind, { tested: number; gaps: number }>>
  readonly gaps: readonly string[]
  readonly items: readonly AuditItem[]
  readonly note: string
}

/** The build's inventory: for each kind, in order of the names, the number of test files and one of them (see scan.mjs). */
export type TestList = { readonly files: readonly string[]; readonly digest: string } & Readonly<
  Record<InventoryKind, readonly (readonly [count: number, file?: number])[]>
>

export const builtInList = (): TestList => unpack(packed) as TestList

/** The names of `inventory` with the tests that name them. */
export function audit(inventory: Inventory, list: TestList = builtInList()): AuditReport {
  const same = list.digest === digestOf(inventory)
  const items = KINDS.flatMap(kind =>
    inventory[kind].map((name, k): AuditItem => {
      const [tests = 0, file] = (same ? list[kind][k] : undefined) ?? []
      const path = file === undefined ? undefined : list.files[file]
      return { kind, name, status: tests > 0 ? 'tested' : 'gap', tests, ...(path !== undefined && { file: path }) }
    }),
  )
  const gaps = items.filter(({ status }) => status === 'gap')
  const countOf = (kind: InventoryKind): { tested: number; gaps: number } => {
    const all = items.filter(item => item.kind === kind)
    const open = all.filter(({ status }) => status === 'gap').length
    return { tested: all.length - open, gaps: open }
  }
  return {
    ok: gaps.length === 0,
    counts: Object.fromEntries(KINDS.map(kind => [kind, countOf(kind)])) as AuditReport['counts'],
    gaps: gaps.map(({ kind, name }) => `${kind}: ${name}`),
    items,
    note: same
      ? `${items.length - gaps.length} of ${items.length} are named by a test`
      : 'the list of tests belongs to another build: build os-node anew',
  }
}
