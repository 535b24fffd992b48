// The source of an update: a file, or a URL that is read sequentially. A server with range support sends only the requested
// bytes, in ranges that grow while they are read to their end: what is on its way beyond a gap is lost. Otherwise the bytes in
// between are read and dropped. A broken connection is reopened at the same position.
// Errors: E_UPDATE_SOURCE (no such file, an error response, no progress in five tries), E_UPDATE (truncated).
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { OsError } from '../lib/errors'
import type { ReadAt } from './file'

export interface UpdateSource {
  readonly read: ReadAt
  /** bytes received so far */
  readonly received: () => number
  close(): Promise<void>
}

const cutShort = (name: string): OsError =>
  new OsError('E_UPDATE', `${name} is truncated`, { hint: 'copy or download it again' })
const cannot = (name: string, why: string): OsError => new OsError('E_UPDATE_SOURCE', `${name} cannot be read: ${why}`)

/** Throws E_UPDATE_SOURCE from `until` (UNIX ms) on. */
export function checkTime(until: number | undefined, now: number): void {
  if (until === undefined || now < until) return
  const end = new Date(until).toISOString().slice(11, 16)
  throw new OsError('E_UPDATE_SOURCE', `the time for updates ended at ${end} UTC`, {
    hint: 'the next window continues; a longer update_time in os-node.conf gives more time',
  })
}

/** Opens `name`, a path or an http or https URL that is read until `until` (UNIX ms) at most. */
export const openSource = (name: string, now: () => number, until?: number): Promise<UpdateSource> =>
  /^https?:\/\//i.test(name) ? Promise.resolve(fromUrl(name, now, { until })) : fromFile(name)

async function fromFile(name: string): Promise<UpdateSource> {
  const file = await open(name, 'r').catch((error: Error) => {
    throw cannot(name, error.message)
  })
  return fromHandle(file, name)
}

/** Opens a file that others can write, called `name` in messages; refuses links and devices. Rejects with E_UPDATE_SOURCE. */
export async function openRegular(path: string, name: string, hint: string): Promise<UpdateSource> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => undefined)
  if ((await file?.stat())?.isFile()) return fromHandle(file!, name)
  await file?.close()
  throw new OsError('E_UPDATE_SOURCE', `${name} is not a regular file`, { hint })
}

/** An open file; `close` closes it. */
export function fromHandle(file: FileHandle, name: string): UpdateSource {
  let received = 0
  return {
    received: () => received,
    async read(at, length) {
      const bytes = Buffer.alloc(length)
      const { bytesRead } = await file.read(bytes, 0, length, at).catch((error: Error) => {
        throw cannot(name, error.message)
      })
      if (bytesRead < length) throw cutShort(name)
      received += length
      return bytes
    },
    close: () => file.close(),
  }
}

/** a smaller gap is read and dropped: a new request costs as much */
const NEAR = 128 * 1024
/** bytes of the first range after a gap, and of the largest one */
const RANGE = { first: 256 * 1024, most: 16 * 2 ** 20 }
const TRIES = 5
const SILENCE_MS = 30_000
/** a slower server is dropped: it would prevent every other update */
const SLOWEST = { bytes: 64 * 1024, ms: 300_000 }

type Body = AsyncIterator<Uint8Array>

/** `delay`: ms to wait before try `n`. `until`: UNIX ms. */
export function fromUrl(
  url: string,
  now: () => number,
  { delay = (n: number): number => 1000 * 2 ** n, until = undefined as number | undefined, slowest = SLOWEST } = {},
): UpdateSource {
  let body: Body | undefined
  let stop = new AbortController()
  let pending: Uint8Array = new Uint8Array()
  let position = 0
  /** where the current answer begins, and the bytes requested */
  let begun = 0
  let size = 0
  let ranges = true
  let received = 0

  function drop(): void {
    stop.abort()
    body = undefined
    pending = new Uint8Array()
  }

  async function request(at: number, most: number): Promise<void> {
    drop()
    size = Math.min(most, RANGE.most)
    stop = new AbortController()
    const answer = await fetch(url, { headers: { range: `bytes=${at}-${at + size - 1}` }, signal: stop.signal })
    if (answer.status === 416) throw cutShort(url)
    if (!answer.ok || !answer.body) throw cannot(url, `the server answers ${answer.status}`)
    ranges = answer.status === 206
    begun = position = ranges ? at : 0
    body = answer.body[Symbol.asyncIterator]() as Body
  }

  /** The next bytes of the body; empty at its end. */
  async function next(): Promise<Uint8Array> {
    if (pending.length === 0) {
      const silence = setTimeout(() => stop.abort(new Error(`no bytes for ${SILENCE_MS / 1000} s`)), SILENCE_MS)
      try {
        const { value, done } = await body!.next()
        if (done || !value) return pending
        pending = value
        received += value.length
      } finally {
        clearTimeout(silence)
      }
    }
    return pending
  }

  function take(most: number): Uint8Array {
    const bytes = pending.subarray(0, most)
    pending = pending.subarray(bytes.length)
    position += bytes.length
    return bytes
  }

  return {
    received: () => received,
    async read(at, length) {
      const bytes = Buffer.alloc(length)
      let done = 0
      let [since, had] = [now(), received]
      for (let failed = 0; done < length; ) {
        const wanted = at + done
        const time = now()
        checkTime(until, time)
        if (time >= since + slowest.ms) {
          if (received < had + slowest.bytes)
            throw cannot(
              url,
              `the server sends less than ${slowest.bytes / 1024} KiB in ${slowest.ms / 60_000} minutes`,
            )
          since = time
          had = received
        }
        try {
          if (!body || wanted < position || (ranges && wanted - position > NEAR)) await request(wanted, RANGE.first)
          if ((await next()).length === 0) {
            if (!ranges || position === begun) throw cutShort(url)
            await request(wanted, 2 * size)
            continue
          }
          if (position < wanted) {
            take(wanted - position)
            continue
          }
          const got = take(length - done)
          bytes.set(got, done)
          done += got.length
          failed = 0
        } catch (error) {
          drop()
          if (error instanceof OsError && error.code === 'E_UPDATE') throw error
          if (++failed === TRIES) throw error instanceof OsError ? error : cannot(url, (error as Error).message)
          await sleep(delay(failed))
        }
      }
      return bytes
    },
    async close() {
      drop()
    },
  }
}
