// dist/os-node-update.js: installs updates of the SD image, shows the slots, and decides a trial. `os-node update` and `os-node slots`
// load it; units of the image run it: `os-node-update boot | confirm | give-up | request`. It is a file of its own: only the image has slots.
// `os-node flash`, which writes a card, is in it too: no gateway needs it.
// What it shows lies in a file of /run, which everybody reads: the card is for root alone.
// Errors: NO_SLOTS, E_UPDATE, E_UPDATE_SOURCE, E_FLASH.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { asOsError, OsError, orElse } from '../lib/errors'
import { disksText, removableDisks } from './disks'
import { readUpdate } from './file'
import { type Installed, installUpdate, type Progress } from './install'
import { openSlots, type Slots, versionOn } from './slots'
import { openSource } from './source'
import { beginTrial, confirm, giveUp, type LastUpdate, LastUpdates, settle } from './trial'

export { writeUpdate } from './file'
export { flash, imageOf } from './flash'

const PLACES = {
  keys: '/usr/lib/os-node/update-keys',
  last: '/data/update/last.json',
  shown: '/run/os-node-slots.json',
  lock: '/run/os-node-update.pid',
  /** what the page asks for: the address of an update */
  request: '/run/os-node/update-request',
}

const MIB = 2 ** 20
const mib = (bytes: number): string => (bytes / MIB).toFixed(1)

/** All public keys (PEM) of the image, one after the other. */
const keysOf = (folder: string): string =>
  orElse<string[], string[]>([], () => readdirSync(folder).sort())
    .map(name => readFileSync(join(folder, name), 'utf8'))
    .join('\n')

interface ShownSlot {
  slot: string
  version: string | null
  running: boolean
  state: 'active' | 'on trial' | 'tried at the next start' | 'standby' | 'empty'
}

interface Shown {
  ok: true
  board: string
  slots: ShownSlot[]
  last_update?: LastUpdate
  progress?: Progress
  /** why the last update was not installed */
  problem?: string
}

/** What `os-node slots` shows. */
function show(slots: Slots): Shown {
  const { active, trying } = slots.choice()
  const shown = [slots.running, slots.other].map(({ name, boot }): ShownSlot => {
    const running = name === slots.running.name
    const version = running ? slots.version : (orElse(undefined, () => versionOn(boot))?.version ?? null)
    const state =
      name === active
        ? 'active'
        : running
          ? 'on trial'
          : name === trying
            ? 'tried at the next start'
            : version
              ? 'standby'
              : 'empty'
    return { slot: name, version, running, state }
  })
  const last = new LastUpdates(PLACES.last).read()
  return {
    ok: true,
    board: slots.board,
    slots: shown.sort((a, b) => a.slot.localeCompare(b.slot)),
    ...(last && { last_update: last }),
  }
}

/** Writes what `os-node slots` and the page show. */
function publish(slots: Slots, more: Pick<Shown, 'progress' | 'problem'> = {}): void {
  const temporary = `${PLACES.shown}.new`
  writeFileSync(temporary, `${JSON.stringify({ ...show(slots), ...more })}\n`)
  // the gateway reads it, which is not root
  chmodSync(temporary, 0o644)
  renameSync(temporary, PLACES.shown)
}

function asText({ board, slots, last_update: last, progress, problem }: Shown): string {
  const lines = slots.map(
    ({ slot, version, running, state }) =>
      `${slot}     ${(version ?? '-').padEnd(12)}${running ? 'yes' : 'no '}      ${state}`,
  )
  return [
    `board ${board}`,
    'slot  version     running  state',
    ...lines,
    ...(last
      ? [`last update: ${last.from} → ${last.version}: ${last.outcome}${last.reason ? `, ${last.reason}` : ''}`]
      : []),
    ...(progress ? [`an update is written: ${progress.step} ${Math.round(progress.done * 100)} %`] : []),
    ...(problem === undefined ? [] : [`not installed: ${problem}`]),
  ].join('\n')
}

/** What `os-node slots` prints. Throws NO_SLOTS. */
export function showSlots(): Shown & { text: string } {
  const shown = existsSync(PLACES.shown) ? (JSON.parse(readFileSync(PLACES.shown, 'utf8')) as Shown) : show(openSlots())
  return { ...shown, text: asText(shown) }
}

/** What `os-node flash` prints without a device. */
export function showDisks(): { ok: true; disks: readonly object[]; text: string } {
  const disks = removableDisks()
  return { ok: true, disks, text: disksText(disks) }
}

/** One update at a time. Throws E_UPDATE. */
function lock(): void {
  const pid = orElse('', () => readFileSync(PLACES.lock, 'utf8'))
  if (pid && existsSync(`/proc/${pid}`))
    throw new OsError('E_UPDATE', 'an update is being installed', { hint: 'os-node slots shows how far it is' })
  rmSync(PLACES.lock, { force: true })
  writeFileSync(PLACES.lock, String(process.pid), { flag: 'wx' })
}

/** Installs the update of a file or URL. Rejects with NO_SLOTS, E_UPDATE, E_UPDATE_SOURCE. */
export async function update(name: string, restart: boolean, print: (line: string) => void): Promise<object> {
  const slots = openSlots()
  lock()
  try {
    const installed = await install(slots, name, print)
    publish(slots)
    if (restart) {
      print('the board starts again and tries it; it goes back to the old version unless the gateway works')
      execFileSync('systemctl', ['reboot'], { stdio: 'ignore' })
    }
    return { ok: true, ...installed }
  } catch (error) {
    publish(slots, { problem: asOsError(error).message })
    throw error
  } finally {
    rmSync(PLACES.lock, { force: true })
  }
}

async function install(slots: Slots, name: string, print: (line: string) => void): Promise<Installed> {
  const source = await openSource(name)
  let shown = ''
  const report = (progress: Progress): void => {
    const key = `${progress.step} ${Math.floor(progress.done * 10) * 10} %`
    if (key === shown) return
    shown = key
    print(`${key}, ${mib(progress.fetched_bytes)} MB fetched`)
    publish(slots, { progress })
  }
  try {
    const update = await readUpdate(source.read, keysOf(PLACES.keys))
    const installed = await installUpdate(update, source, slots, report)
    const { version, fetched_bytes: fetched, bytes } = installed
    beginTrial(slots, new LastUpdates(PLACES.last), installed, Date.now())
    print(`${version} is in slot ${installed.slot}: ${mib(fetched)} MB of ${mib(bytes)} MB were fetched`)
    return installed
  } finally {
    await source.close()
  }
}

/** The address that the gateway wrote down. The file is the gateway's, which is no more trusted than the network. Throws E_UPDATE. */
function requested(): string {
  const fd = openSync(PLACES.request, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  const bytes = Buffer.alloc(4096)
  const text = orElse('', () => bytes.toString('latin1', 0, readSync(fd, bytes)))
  closeSync(fd)
  rmSync(PLACES.request)
  if (!/^https?:\/\/[\x21-\x7e]{1,2000}$/.test(text)) throw new OsError('E_UPDATE', 'the request names no address')
  return text
}

/** Runs a command of the image's units; the exit code. */
async function main(command = ''): Promise<number> {
  const slots = openSlots()
  const updates = new LastUpdates(PLACES.last)
  switch (command) {
    case 'boot':
      settle(slots, updates, Date.now())
      break
    case 'confirm':
      if (confirm(slots, updates, Date.now())) console.log('the new version works and is confirmed')
      break
    case 'give-up':
      if (giveUp(slots, updates, Date.now())) {
        console.log('the new version does not work: the board starts again with the old one')
        execFileSync('systemctl', ['reboot'], { stdio: 'ignore' })
      }
      return 0
    case 'request':
      try {
        await update(requested(), true, console.log)
        return 0
      } catch (error) {
        console.error(asOsError(error).message)
        return 1
      }
    default:
      console.error(
        'os-node-update boot | confirm | give-up | request: for the units of the image; people use os-node update',
      )
      return 2
  }
  publish(slots)
  return 0
}

if (require.main === module) void main(process.argv[2]).then(code => (process.exitCode = code))
