// Any packet in hex: its bytes and fields are shown immediately, its values after the gateway has decoded it with the
// templates.
import { useState } from 'preact/hooks'
import { numberText } from '../../../units/display'
import { useAnswer } from '../lib/action'
import { parseHex, parts, toHex } from '../lib/hex'
import { executeJson } from '../lib/jobs'
import { may } from '../lib/session'
import { HexFields } from '../ui/hex'
import { Card, Problem, Table, Value } from '../ui/parts'
import { TreeView } from '../ui/tree'

/** A decoded fact's readings: s1_id, s1_v … → rows. */
export function readingsOf(fact: Readonly<Record<string, unknown>>) {
  const rows: { id: string; value: number | null; unit: string; status: string }[] = []
  for (let n = 1; fact[`s${n}_id`] !== undefined; n++) {
    const value = fact[`s${n}_v`]
    rows.push({
      id: String(fact[`s${n}_id`]),
      value: typeof value === 'number' ? value : null,
      unit: String(fact[`s${n}_u`] ?? ''),
      status: String(fact[`s${n}_s`] ?? ''),
    })
  }
  return rows
}

export function ReadingsTable({ fact }: { fact: Readonly<Record<string, unknown>> }) {
  const rows = readingsOf(fact)
  if (rows.length === 0) return <p class="empty">This packet has no readings.</p>
  return (
    <Table columns={['Sensor', 'Value', 'Stored as', 'Status']}>
      {rows.map(({ id, value, unit, status }) => (
        <tr key={id}>
          <th scope="row" class="break">
            {id}
          </th>
          <td class="nowrap">
            <Value value={value} unit={unit} />
          </td>
          <td class="mono break">
            {value === null ? '—' : numberText(value)} {unit}
          </td>
          <td>{status}</td>
        </tr>
      ))}
    </Table>
  )
}

/** Bytes with their fields, and the gateway's decoded values. */
export function Decoded({ bytes }: { bytes: Uint8Array }) {
  const { value: fact, error, busy, ask } = useAnswer<Record<string, unknown>>()
  const decode = () => executeJson(['decode', '--hex', toHex(bytes).replaceAll(' ', '')])
  return (
    <>
      <HexFields bytes={bytes} parts={parts(bytes)} />
      <div class="buttons gap-above">
        <button type="button" class="primary" disabled={busy || !may('operator')} onClick={() => void ask(decode)}>
          {busy ? 'Decoding …' : 'Decode'}
        </button>
        {!may('operator') && <span class="quiet small">needs the role operator</span>}
      </div>
      {error !== undefined && <Problem>{error}</Problem>}
      {fact && (
        <div class="gap-above">
          {typeof fact.error === 'string' ? (
            <Problem>{fact.error}</Problem>
          ) : (
            <>
              <p class="gap">
                Device <strong>{String(fact.id ?? '—')}</strong>, {String(fact.s ?? '')}
              </p>
              <ReadingsTable fact={fact} />
            </>
          )}
          <details class="gap-above">
            <summary>All fields</summary>
            <TreeView value={fact} />
          </details>
        </div>
      )}
    </>
  )
}

export function DecodeView({ first }: { first: string }) {
  const [text, setText] = useState(first)
  const bytes = parseHex(text)
  return (
    <Card title="Decode a packet">
      <div class="fieldset gap">
        <label for="hex">Packet in hex</label>
        <textarea
          id="hex"
          rows={4}
          spellcheck={false}
          autocapitalize="none"
          value={text}
          aria-invalid={text.trim() !== '' && bytes === null}
          aria-describedby="hex-help"
          onInput={event => setText(event.currentTarget.value)}
        />
        <p class="quiet small" id="hex-help">
          {text.trim() !== '' && bytes === null
            ? 'Enter pairs of hex digits.'
            : 'Spaces, colons and 0x are ignored. Fields and checksums appear as you type.'}
        </p>
      </div>
      {bytes && <Decoded key={text} bytes={bytes} />}
    </Card>
  )
}
