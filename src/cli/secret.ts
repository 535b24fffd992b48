// A secret from the user of the command: at a terminal it is prompted for and not shown, else it is the first line of stdin.
// What fails: an end without a line, and Ctrl-C, are USAGE.
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
