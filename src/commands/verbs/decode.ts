// decode: a packet in hex → the fact it holds. A packet that cannot be decoded is a result with `error`, exit 1.
import { OsError } from '../../lib/errors'
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

export const decode: Verb = {
  name: 'decode',
  summary: 'show what a packet holds',
  description:
    'DIFF and HEART packets need the template of their FULL packet; a running gateway knows those it received.',
  examples: ['os-node decode 3f0100000001…', 'os-node decode --hex "3f 01 00 00" --json'],
  options: { hex: { type: 'string', value: 'HEX', required: true, help: 'the packet; blanks and colons are ignored' } },
  operands: ['hex'],
  where: 'either',
  async run(context, options) {
    const bytes = bytesOf(String(options.hex))
    const value = (await context.node()).fusion.decompress(bytes)
    return { value, exitCode: 'error' in value ? 1 : 0 }
  },
}
