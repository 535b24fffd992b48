// Any JSON as nested lists, lists of rows as tables; long ones are initially closed.
import { numberText } from '../../../units/display'
import { momentText } from '../format'
import { Table } from './parts'

const OPEN_UP_TO = 12

type TreeRow = Readonly<Record<string, unknown>>

const isInner = (value: unknown): value is object => typeof value === 'object' && value !== null

function plain(value: unknown, name: string): string {
  if (value === null || value === undefined) return '—'
  if (value === '') return '(empty)'
  return momentText(name, value) ?? (typeof value === 'number' ? numberText(value) : String(value))
}

const cellText = (value: unknown, name: string): string =>
  Array.isArray(value)
    ? value.map(item => plain(item, name)).join(', ') || '—'
    : value === undefined
      ? ''
      : plain(value, name)

/** Rows whose cells are single values, or short lists of them. */
const isRows = (value: object): value is readonly TreeRow[] =>
  Array.isArray(value) &&
  value.every(
    row =>
      isInner(row) &&
      !Array.isArray(row) &&
      Object.values(row).every(cell => !isInner(cell) || (Array.isArray(cell) && !cell.some(isInner))),
  )

function Rows({ rows }: { rows: readonly TreeRow[] }) {
  const names = [...new Set(rows.flatMap(Object.keys))]
  return (
    <Table columns={names}>
      {rows.map((row, k) => (
        <tr key={k}>
          {names.map(name => (
            <td key={name}>{cellText(row[name], name)}</td>
          ))}
        </tr>
      ))}
    </Table>
  )
}

export function TreeView({ value, name = '', depth = 0 }: { value: unknown; name?: string; depth?: number }) {
  if (!isInner(value)) return <span class="leaf">{plain(value, name)}</span>
  const entries = Object.entries(value)
  if (entries.length === 0) return <span class="leaf quiet">{Array.isArray(value) ? 'empty list' : 'nothing'}</span>
  if (isRows(value)) return <Rows rows={value} />
  return (
    <ul class="tree">
      {entries.map(([key, inner]) => (
        <li key={key}>
          {isInner(inner) && Object.keys(inner).length > 0 ? (
            <details open={depth < 1 && Object.keys(inner).length <= OPEN_UP_TO}>
              <summary>
                {key} <span class="quiet small">{Object.keys(inner).length}</span>
              </summary>
              <TreeView value={inner} depth={depth + 1} />
            </details>
          ) : (
            <>
              <span class="key">{key}</span> <TreeView value={inner} name={key} depth={depth + 1} />
            </>
          )}
        </li>
      ))}
    </ul>
  )
}
