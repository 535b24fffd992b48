// Any JSON as nested lists; long ones are closed at first.
const OPEN_UP_TO = 12

const plain = (value: unknown): string =>
  value === null || value === undefined ? '—' : value === '' ? '(empty)' : String(value)

export function Tree({ value, depth = 0 }: { value: unknown; depth?: number }) {
  if (typeof value !== 'object' || value === null) return <span class="leaf">{plain(value)}</span>
  const entries = Object.entries(value)
  if (entries.length === 0) return <span class="leaf quiet">{Array.isArray(value) ? 'empty list' : 'nothing'}</span>
  return (
    <ul class="tree">
      {entries.map(([key, inner]) => (
        <li key={key}>
          {typeof inner === 'object' && inner !== null && Object.keys(inner).length > 0 ? (
            <details open={depth < 1 && Object.keys(inner).length <= OPEN_UP_TO}>
              <summary>
                {key} <span class="quiet small">{Object.keys(inner).length}</span>
              </summary>
              <Tree value={inner} depth={depth + 1} />
            </details>
          ) : (
            <>
              <span class="key">{key}</span> <Tree value={inner} depth={depth + 1} />
            </>
          )}
        </li>
      ))}
    </ul>
  )
}
