// `os-node flash`: writes an image to a card and reads it back. The first megabyte with the partition table is written last,
// so that an incompletely written card cannot be started.
// Errors: an image that is invalid or truncated, a disk that must not be written, a card that returns other bytes (E_FLASH).
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { constants, createReadStream, readdirSync, statSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { asOsError, OsError, orElse } from '../lib/errors'
import { appendToConf, type CardSettings, settingLines } from './card-settings'
import { type Disk, diskFor, gigabytes, MACHINE } from './disks'

const MIB = 2 ** 20
/** signature of an os-node disk (src/build/image/disk.mjs) */
const DISK_ID = 0x6f736e64
/** bytes written between two syncs, so that progress shows bytes on the card and not in memory */
const STEP = 16 * MIB

export interface FlashOptions extends CardSettings {
  readonly device: string
  readonly image: string
  readonly yes: boolean
  readonly print: (line: string) => void
  readonly machine?: typeof MACHINE
  /** returns the user's answer */
  readonly ask?: (question: string) => Promise<string>
}

const refuse = (message: string, hint: string, cause?: unknown): OsError =>
  new OsError('E_FLASH', message, { hint, ...(cause !== undefined && { cause }) })

const AGAIN = 'copy or download the image again'

/** the boards of src/build/image/boards.mjs */
export const IMAGE_BOARDS: readonly string[] = ['rpi-3', 'rpi-4', 'rpi-5', 'rpi-zero-2-w', 'cm4', 'qemu-virt']

/** The newest image of a board in `folders`. Throws E_FLASH. */
export function imageOf(board: string, folders: readonly string[]): string {
  const named = new RegExp(`^os-node-${board.replace(/\W/g, '\\$&')}-\\d[^/]*\\.img(\\.xz)?$`)
  const found = folders
    .flatMap(folder => orElse<string[], string[]>([], () => readdirSync(folder)).map(name => [folder, name] as const))
    .filter(([, name]) => named.test(name))
    .map(([folder, name]) => join(folder, name))
    .sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)
  if (found[0]) return found[0]
  const known = IMAGE_BOARDS.includes(board)
  throw refuse(
    `no image for ${board} in ${folders.join(', ')}`,
    known ? `npm run image -- --board ${board}` : `the boards are ${IMAGE_BOARDS.join(', ')}`,
  )
}

const packed = (image: string): boolean => image.endsWith('.xz')

function xzFailed(image: string, thrown: unknown): OsError {
  if ((thrown as NodeJS.ErrnoException).code === 'ENOENT')
    return refuse('the program xz is missing', 'sudo apt-get install xz-utils', thrown)
  return refuse(`${image} cannot be unpacked: it is damaged or truncated`, AGAIN, thrown)
}

/** Bytes of the image on the card. Throws E_FLASH. */
function sizeOf(image: string): number {
  const size = orElse(undefined, () => statSync(image).size)
  if (size === undefined) throw refuse(`there is no file ${image}`, 'check the path; npm run image builds an image')
  if (!packed(image)) return size
  try {
    const said = execFileSync('xz', ['--robot', '--list', '--', image], { encoding: 'utf8', stdio: 'pipe' })
    return Number(/^totals(?:\t\d+){3}\t(\d+)/m.exec(said)?.[1])
  } catch (thrown) {
    throw xzFailed(image, thrown)
  }
}

/** The image in order. Throws E_FLASH. */
async function* chunksOf(image: string): AsyncGenerator<Buffer> {
  if (!packed(image)) return yield* createReadStream(image, { highWaterMark: MIB }) as AsyncIterable<Buffer>
  const xz = spawn('xz', ['-dc', '--', image], { stdio: ['ignore', 'pipe', 'ignore'] })
  const ended = once(xz, 'close')
  ended.catch(() => undefined)
  try {
    yield* xz.stdout as AsyncIterable<Buffer>
    const [code] = await ended
    if (code !== 0) throw xzFailed(image, new Error(`xz ended with ${code}`))
  } finally {
    xz.kill()
  }
}

/** The image as chunks; the first one contains the start partition with the settings. Throws E_FLASH. */
async function* cardOf(image: string, settings: string): AsyncGenerator<Buffer> {
  const none = (): OsError => refuse(`${image} is not an os-node image`, 'npm run image builds one; see docs/flash.md')
  let first: Buffer[] | null = []
  let have = 0
  let end = 512
  for await (const chunk of chunksOf(image)) {
    if (!first) {
      yield chunk
      continue
    }
    first.push(chunk)
    have += chunk.length
    if (have < end) continue
    const head = Buffer.concat(first)
    const start = head.readUInt32LE(454) * 512
    end = start + head.readUInt32LE(458) * 512
    if (head.readUInt32LE(440) !== DISK_ID || head.readUInt16LE(510) !== 0xaa55 || start < MIB || end > 64 * MIB)
      throw none()
    first = [head]
    if (have < end) continue
    if (settings) appendToConf(head.subarray(start, end), settings)
    first = null
    yield head
  }
  if (first) throw none()
}

async function writeAll(card: FileHandle, bytes: Buffer, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; )
    done += (await card.write(bytes, done, bytes.length - done, at + done)).bytesWritten
}

type Report = (step: 'write' | 'verify', done: number) => void

/** Writes the card; returns the SHA-256 and the length of its expected content. */
async function write(card: FileHandle, chunks: AsyncIterable<Buffer>, report: Report) {
  const hash = createHash('sha256')
  let table: Buffer | undefined
  let at = 0
  let synced = 0
  for await (const chunk of chunks) {
    hash.update(chunk)
    table ??= Buffer.from(chunk.subarray(0, MIB))
    await writeAll(card, at === 0 ? Buffer.concat([Buffer.alloc(MIB), chunk.subarray(MIB)]) : chunk, at)
    at += chunk.length
    if (at - synced >= STEP) {
      await card.datasync()
      synced = at
      report('write', at)
    }
  }
  await card.sync()
  if (table) await writeAll(card, table, 0)
  await card.sync()
  report('write', at)
  return { sha256: hash.digest('hex'), bytes: at }
}

/** Drops what the page cache has of a device, so that the card itself is read. Throws if the kernel refuses. A file stays as it is. */
export function dropCache(device: string): void {
  if (statSync(device).isBlockDevice()) execFileSync('blockdev', ['--flushbufs', device], { stdio: 'ignore' })
}

/** Reads the card; returns its SHA-256. */
async function readBack(device: string, bytes: number, report: Report): Promise<string> {
  // a machine without blockdev reads what it may have in memory
  orElse(undefined, () => dropCache(device))
  const hash = createHash('sha256')
  let at = 0
  for await (const chunk of createReadStream(device, { end: bytes - 1, highWaterMark: MIB }) as AsyncIterable<Buffer>) {
    hash.update(chunk)
    at += chunk.length
    report('verify', at)
  }
  return hash.digest('hex')
}

async function confirm({ device, model, size_bytes: size }: Disk, { yes, image, ask }: FlashOptions): Promise<void> {
  if (yes) return
  const name = device.split('/').pop()!
  const question = `Everything on ${device} (${model}, ${gigabytes(size)}) will be erased, and ${image} written.\nType ${name} to continue: `
  const answer = ask ?? askOnTerminal
  if ((await answer(question)).trim() !== name) throw refuse('nothing was written', `answer with ${name}, or use --yes`)
}

async function askOnTerminal(question: string): Promise<string> {
  if (!process.stdin.isTTY)
    throw new OsError('USAGE', 'this erases a disk, and there is no terminal to confirm it', { hint: 'use --yes' })
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return await lines.question(question)
  } finally {
    lines.close()
  }
}

async function openCard(device: string): Promise<FileHandle> {
  try {
    // O_EXCL: the kernel refuses a mounted disk or one in use
    return await open(device, constants.O_RDWR | constants.O_EXCL)
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException
    if (code === 'EBUSY') throw refuse(`${device} is in use`, 'unmount it', thrown)
    if (code === 'EACCES' || code === 'EPERM') throw refuse(`no permission to write ${device}`, 'use sudo', thrown)
    throw thrown
  }
}

/** Writes and verifies a card. Rejects with E_FLASH, BAD_ARGUMENT, USAGE. */
export async function flash(options: FlashOptions): Promise<object> {
  const { image, print, machine = MACHINE } = options
  const settings = settingLines(options)
  const size = sizeOf(image)
  const disk = diskFor(options.device, size, machine)
  await confirm(disk, options)
  let shown = ''
  const report: Report = (step, done) => {
    const line = `${step} ${Math.min(10, Math.floor((done / size) * 10)) * 10} %`
    if (line !== shown) print((shown = line))
  }
  const card = await openCard(disk.device)
  try {
    const { sha256, bytes } = await write(card, cardOf(image, settings), report)
    if ((await readBack(disk.device, bytes, report)) !== sha256)
      throw refuse(`${disk.device} returns other data than was written`, 'use another card: this one loses data')
    print(`${disk.device} is written and verified: put the card into the board, then connect the power`)
    return { ok: true, device: disk.device, bytes, sha256 }
  } catch (thrown) {
    const error = asOsError(thrown, 'E_FLASH')
    if (error.code !== 'E_FLASH' || error === thrown) throw error
    throw refuse(`${disk.device} cannot be written: ${error.message}`, 'use another card or reader', thrown)
  } finally {
    await card.close()
  }
}
