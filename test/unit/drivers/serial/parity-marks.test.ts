// Damaged bytes as termios marks them (termios(3), PARMRK), however the kernel's bytes are split.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MarkReader } from '../../../../drivers/serial/parity-marks'
import { prng } from '../../../lib/random'

type Heard = number | { damaged: number }

function read(chunks: readonly Uint8Array[]): Heard[] {
  const heard: Heard[] = []
  const reader = new MarkReader({ data: chunk => heard.push(...chunk), damaged: byte => heard.push({ damaged: byte }) })
  // a chunk is overwritten
  for (const chunk of chunks) reader.push(Uint8Array.from(chunk))
  return heard
}

/** As a kernel with INPCK and PARMRK writes it: n_tty_receive_parity_error, n_tty_receive_break, n_tty_receive_char. */
const marked = (sent: readonly Heard[]): number[] =>
  sent.flatMap(one => (typeof one === 'object' ? [0xff, 0, one.damaged] : one === 0xff ? [0xff, 0xff] : [one]))

test('a damaged byte, a break and FF come out once, wherever a read ends', () => {
  const sent: Heard[] = [
    1,
    0xff,
    { damaged: 0x41 },
    0,
    { damaged: 0 },
    { damaged: 0xff },
    0xff,
    0xff,
    2,
    { damaged: 7 },
  ]
  const bytes = Uint8Array.from(marked(sent))
  for (let a = 0; a <= bytes.length; a++)
    for (let b = a; b <= bytes.length; b++)
      assert.deepEqual(
        read([bytes.subarray(0, a), bytes.subarray(a, b), bytes.subarray(b)]),
        sent,
        `cut at ${a} and ${b}`,
      )
})

test('any bytes with any of them damaged, split anywhere, are those that were sent', () => {
  const random = prng(0x0ff)
  for (let round = 0; round < 500; round++) {
    const sent = Array.from({ length: random() * 40 }, (): Heard => {
      const byte = random() < 0.5 ? [0, 0xff][Math.floor(random() * 2)]! : Math.floor(random() * 256)
      return random() < 0.3 ? { damaged: byte } : byte
    })
    const bytes = Uint8Array.from(marked(sent))
    const chunks: Uint8Array[] = []
    for (let at = 0; at < bytes.length; ) {
      const size = 1 + Math.floor(random() * 5)
      chunks.push(bytes.subarray(at, at + size))
      at += size
    }
    assert.deepEqual(read(chunks), sent)
  }
})

test('FF before a byte that no kernel writes there counts as damaged itself', () => {
  assert.deepEqual(read([Uint8Array.of(1, 0xff, 5, 6)]), [1, { damaged: 0xff }, 5, 6])
  assert.deepEqual(read([Uint8Array.of(1, 0xff), Uint8Array.of(5, 0xff, 0xff)]), [1, { damaged: 0xff }, 5, 0xff])
})
