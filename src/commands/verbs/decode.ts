// decode: a packet in hex → its fact. A packet that cannot be decoded is a result with `error`, exit 1.
import { plain, textOf } from '../../display'
import { OsError } from '../../lib/errors'
import { readingsAsText } from '../../units/display'
import type { Verb } from '../verb'

function bytesOf(text: string): Uint8Array {
  const hex = text.replace(/0x/gi, '').replace(/[\s:,-]/g, '')
  if (hex.length === 0 || hex.length % 2 !== 0 || !/^[0-9a-f]*$/i.test(hex)) {
    throw new OsError('USAGE', 'HEX must be pairs of hex digits, for example 3f01…', {
      hint: 'see os-node decode --help',
    })
  }
  return Buffer.from(hex, 'hex')
}

/** one volt, from a sensor T */
const PACKET = '3f01000000000101a204d45f1c303b412e312e41614945314638637c543e4b2e563a3242697cfda443'

export const decode: Verb<object> = {
  name: 'decode',
  summary: 'decode a packet',
  description:
    'DIFF and HEART packets need the template of their FULL packet; a running gateway knows those it received.',
  examples: [`os-node decode ${PACKET}`, `os-node decode --hex ${PACKET} --json`],
  options: { hex: { type: 'string', value: 'HEX', required: true, help: 'the packet; blanks and colons are ignored' } },
  operands: ['hex'],
  where: 'either',
  async run(context, options) {
    const bytes = bytesOf(String(options.hex))
    const value = (await context.node()).receive(bytes)
    return { value, exitCode: 'error' in value ? 1 : 0 }
  },
  text: value => textOf(plain(readingsAsText(value))),
}
