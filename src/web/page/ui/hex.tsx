// Bytes and fields next to each other: pointing at one, or moving to it with the keyboard, highlights the other.
import { useState } from 'preact/hooks'
import type { PacketParts } from '../lib/hex'
import { Table } from './parts'

const two = (byte: number): string => byte.toString(16).padStart(2, '0')

export function HexFields({ bytes, parts }: { bytes: Uint8Array; parts: PacketParts }) {
  const [at, setAt] = useState(-1)
  const { fields, problem } = parts
  return (
    <div class="decode">
      <div class="hex">
        {fields.map((field, k) => (
          <button
            type="button"
            key={field.start}
            class="bytes"
            aria-label={`${field.name}, ${field.end - field.start} bytes`}
            aria-pressed={k === at}
            data-tint={k % 6}
            onMouseEnter={() => setAt(k)}
            onMouseLeave={() => setAt(-1)}
            onFocus={() => setAt(k)}
            onBlur={() => setAt(-1)}
          >
            {Array.from(bytes.subarray(field.start, field.end), (byte, n) => (
              <span key={n}>{two(byte)}</span>
            ))}
          </button>
        ))}
      </div>
      <Table columns={['Field', 'Bytes', 'Meaning']} caption="Fields of the packet">
        {fields.map((field, k) => (
          <tr key={field.start} data-here={k === at} onMouseEnter={() => setAt(k)} onMouseLeave={() => setAt(-1)}>
            <th scope="row" class="nowrap">
              <span class="tint" data-tint={k % 6} aria-hidden="true" />
              {field.name}
            </th>
            <td class="nowrap">
              {field.start}
              {field.end - field.start > 1 && `–${field.end - 1}`}
            </td>
            <td class="break" data-bad={field.bad}>
              {field.text}
            </td>
          </tr>
        ))}
      </Table>
      {problem !== '' && (
        <p class="error wide" role="alert">
          {problem}
        </p>
      )}
    </div>
  )
}
