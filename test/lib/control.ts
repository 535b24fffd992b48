// Sends commands to a running gateway over its control socket, like the CLI, without a process per command.
import { createConnection } from 'node:net'
import { join } from 'node:path'

/** The result of a command, after its rows; throws the gateway's error, or if no gateway answers. */
export function askControl(
  dataDir: string,
  command: string,
  options: Record<string, unknown> = {},
  onRow: (row: unknown) => void = () => undefined,
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command gives
): Promise<any> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(join(dataDir, 'os-node.sock'))
    let text = ''
    socket.setEncoding('utf8')
    socket.on('error', reject)
    socket.on('close', () => reject(new Error(`no answer to ${command}`)))
    socket.on('connect', () => socket.write(`${JSON.stringify({ id: 1, command, options })}\n`))
    socket.on('data', chunk => {
      const lines = (text + chunk).split('\n')
      text = lines.pop()!
      for (const line of lines) {
        const answer = JSON.parse(line)
        if (answer.working) continue
        if ('row' in answer) {
          onRow(answer.row)
          continue
        }
        socket.destroy()
        if (answer.error === undefined) resolve(answer.result)
        else reject(new Error(JSON.stringify(answer.error)))
      }
    })
  })
}
