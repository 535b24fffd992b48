// Uploads a file to the gateway in pieces that fit into a request. A piece is sent again while the gateway is not reached.
import { type ApiError, call } from './api'

const PIECE = 512 * 1024
/** until an upload fails: half a minute without the gateway */
const TRIES = 15
const DELAY_MS = 2000

/** A piece as base64. */
const read = (piece: Blob): Promise<string> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result).split(',')[1]!)
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(piece)
  })

async function send(path: string, body: object, tries = TRIES): Promise<void> {
  try {
    await call('PUT', path, { body })
  } catch (error) {
    if (tries === 0 || (error as ApiError).status !== 0) throw error
    await new Promise(resolve => setTimeout(resolve, DELAY_MS))
    await send(path, body, tries - 1)
  }
}

/** `progress` gets percent. Rejects with the gateway's error. */
export async function upload(path: string, file: File, progress: (percent: number) => void): Promise<void> {
  for (let offset = 0; offset < file.size; offset += PIECE) {
    progress(Math.round((100 * offset) / file.size))
    await send(path, { offset, data: await read(file.slice(offset, offset + PIECE)) })
  }
}
