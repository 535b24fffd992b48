// An HTTP server for the files of a folder, which supports ranges: where a board fetches an update.
import { createReadStream, statSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream'

/** Serves the files of `folder`; `sent`: bytes of each answer; `host`: the name of this machine in the URL. */
export async function serveFiles(
  folder: string,
  sent: number[],
  host: string,
): Promise<{ url: string; server: Server }> {
  const server = createServer((req, res) => {
    const path = join(folder, req.url!)
    const { size } = statSync(path)
    const [from = 0, last = size] =
      /bytes=(\d+)-(\d+)/
        .exec(req.headers.range ?? '')
        ?.slice(1)
        .map(Number) ?? []
    if (from >= size) return void res.writeHead(416).end()
    const end = Math.min(last, size - 1)
    res.writeHead(206, { 'content-range': `bytes ${from}-${end}/${size}`, 'content-length': end + 1 - from })
    const { socket } = res
    const before = socket!.bytesWritten
    res.once('close', () => sent.push(socket!.bytesWritten - before))
    // in small pieces: what is written at once counts as sent, though the board ends the transfer
    pipeline(createReadStream(path, { start: from, end }), res, () => {})
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://${host}:${(server.address() as AddressInfo).port}`, server }
}
