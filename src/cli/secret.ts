// Reads a secret from the user: at a terminal it is prompted for and not shown, else it is the first line of stdin.
// Errors: USAGE for an end without a line, and for Ctrl-C.
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { OsError } from '../lib/errors'
import type { Out } from './output'

export async function readSecret(what: string, stdin: NodeJS.ReadableStream & { isTTY?: boolean }, stderr: Out) {
  const terminal = stdin.isTTY === true
  if (terminal) stderr.write(`${what}: `)
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: stdin, output: nowhere, terminal })
  try {
    return await new Promise<string>((resolve, reject) => {
      lines.once('line', resolve)
      lines.once('SIGINT', () => lines.close())
      lines.once('close', () => reject(new OsError('USAGE', `no ${what} came on stdin`)))
    })
  } finally {
    lines.close()
    if (terminal) stderr.write('\n')
  }
}
