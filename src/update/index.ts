// dist/os-node-update.js: installs updates of the SD image, shows the slots, and decides a trial. `os-node update` and
// `os-node slots` load it; units of the image run it: `os-node-update boot | confirm | give-up | request | reset-button GPIO
// [CHIP] | scheduled | stick NAME | uplink`. It is a separate file, since only the image has slots. It also contains `os-node
// flash`, which writes a card, `os-node backup` and `os-node restore`: no gateway needs them.
// Its output is stored in a world-readable file in /run, since only root may read the card.
// Errors: NO_SLOTS, E_UPDATE, E_UPDATE_SOURCE, E_FLASH.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
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
import { bytesText } from '../units/display'
import { checkAutomatic, checked, checkText, type LastCheck, lineOf, runsAlready } from './automatic'
import { disksText, removableDisks } from './disks'
import { readUpdate } from './file'
import { type Installed, type InstallProgress, installUpdate } from './install'
import { askForReset, heldAtStart, kernelButton } from './reset-button'
import { scheduleOf, type UpdateSchedule, windowEnd } from './schedule'
import { openSlots, type Slots, versionOn } from './slots'
import { mountStick, newestOn, openOn, updatesOn } from './stick'
import { beginTrial, confirm, giveUp, type LastUpdate, LastUpdates, noteRestart, RecordFile, settle } from './trial'
import { checkTime, openRegular, openSource, type UpdateSource } from './update-source'
import { takeUplink } from './uplink'

export * as backup from '../backup'
export { writeUpdate } from './file'
export { flash, imageOf } from './flash'

const PLACES = {
  keys: '/usr/lib/os-node/update-keys',
  last: '/data/update/last.json',
  shown: '/run/os-node-slots.json',
  lock: '/run/os-node-update.pid',
  /** the page's request: the address of an update, or the path of the uploaded one */
  request: '/run/os-node/update-request',
  /** the update that was uploaded by the page */
  upload: '/var/lib/os-node/update-upload',
  schedule: '/run/os-node-fetch.conf',
  check: '/data/update/check.json',
  stick: '/run/os-node-stick',
}

const CHECK = new RecordFile<LastCheck>(PLACES.check)
const UPDATES = new LastUpdates(PLACES.last)

/** All public keys (PEM) of the image, concatenated. */
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
  schedule?: UpdateSchedule
  /** the last check for an update by schedule or on a USB stick */
  last_check?: LastCheck
  progress?: InstallProgress
  /** why the last update was not installed */
  problem?: string
}

/** Collects what `os-node slots` shows. */
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
  const last = UPDATES.read()
  const schedule = ownersSchedule()
  const check = CHECK.read()
  return {
    ok: true,
    board: slots.board,
    slots: shown.sort((a, b) => a.slot.localeCompare(b.slot)),
    ...(last && { last_update: last }),
    ...(schedule && { schedule }),
    ...(check && { last_check: check }),
  }
}

const ownersSchedule = (): UpdateSchedule | undefined => scheduleOf(() => readFileSync(PLACES.schedule, 'utf8'))

/** Writes the file that `os-node slots` and the page show. */
function publish(slots: Slots, more: Pick<Shown, 'progress' | 'problem'> = {}): void {
  const temporary = `${PLACES.shown}.new`
  writeFileSync(temporary, `${JSON.stringify({ ...show(slots), ...more })}\n`)
  // the gateway, which reads it, does not run as root
  chmodSync(temporary, 0o644)
  renameSync(temporary, PLACES.shown)
}

function lastText({ from, version, outcome, reason, bytes, fetched_bytes: fetched }: LastUpdate): string {
  const transfer = bytes && fetched !== undefined ? `; ${bytesText(fetched)} of ${bytesText(bytes)} were fetched` : ''
  return `last update: ${from} → ${version}: ${outcome}${reason ? `, ${reason}` : ''}${transfer}`
}

function asText({ board, slots, last_update: last, schedule, last_check: check, progress, problem }: Shown): string {
  const lines = slots.map(
    ({ slot, version, running, state }) =>
      `${slot}     ${(version ?? '-').padEnd(12)}${running ? 'yes' : 'no '}      ${state}`,
  )
  return [
    `board ${board}`,
    'slot  version     running  state',
    ...lines,
    ...(last ? [lastText(last)] : []),
    ...(schedule ? [`checks for updates: ${schedule.days || 'every day'} ${schedule.time} UTC, ${schedule.url}`] : []),
    ...(check ? [checkText(check)] : []),
    ...(progress
      ? [
          `installing an update: ${progress.step} ${Math.round(progress.done * 100)} %, ${bytesText(progress.fetched_bytes)} fetched`,
        ]
      : []),
    ...(problem === undefined ? [] : [`not installed: ${problem}`]),
  ].join('\n')
}

/** The output of `os-node slots`. Throws NO_SLOTS. */
export function showSlots(): Shown & { text: string } {
  const shown = existsSync(PLACES.shown) ? (JSON.parse(readFileSync(PLACES.shown, 'utf8')) as Shown) : show(openSlots())
  return { ...shown, text: asText(shown) }
}

/** The output of `os-node flash` without a device. */
export function showDisks(): { ok: true; disks: readonly object[]; text: string } {
  const disks = removableDisks()
  return { ok: true, disks, text: disksText(disks) }
}

/** Allows one update at a time. Throws E_UPDATE. */
function lock(): void {
  const pid = orElse('', () => readFileSync(PLACES.lock, 'utf8'))
  if (pid && existsSync(`/proc/${pid}`))
    throw new OsError('E_UPDATE', 'an update is being installed', { hint: 'os-node slots shows its progress' })
  rmSync(PLACES.lock, { force: true })
  writeFileSync(PLACES.lock, String(process.pid), { flag: 'wx' })
}

interface Attempt {
  open(): Promise<UpdateSource>
  print(line: string): void
  readonly restart: boolean
  /** no user requested this particular update */
  readonly automatic?: boolean
  /** UNIX ms by which it must end */
  readonly until?: number
}

/** Installs the update of a file or URL. Rejects with NO_SLOTS, E_UPDATE, E_UPDATE_SOURCE. */
export async function update(name: string, restart: boolean, print: (line: string) => void): Promise<object> {
  return { ok: true, ...(await attempt(openSlots(), { open: () => openSource(name, Date.now), restart, print })) }
}

function restartForTrial(): void {
  noteRestart(UPDATES)
  execFileSync('systemctl', ['reboot'], { stdio: 'ignore' })
}

/** Undefined: the source has the running version, and no user requested it. */
async function attempt(slots: Slots, one: Attempt): Promise<Installed | undefined> {
  lock()
  try {
    const installed = await install(slots, one)
    publish(slots)
    if (installed && one.restart) {
      one.print('the board restarts and tries it; it rolls back unless the gateway works')
      restartForTrial()
    }
    return installed
  } catch (error) {
    publish(slots, { problem: asOsError(error).message })
    throw error
  } finally {
    rmSync(PLACES.lock, { force: true })
  }
}

async function install(slots: Slots, { open, print, automatic, until }: Attempt): Promise<Installed | undefined> {
  const source = await open()
  let shown = ''
  const report = (progress: InstallProgress): void => {
    checkTime(until, Date.now())
    const key = `${progress.step} ${Math.floor(progress.done * 10) * 10} %`
    if (key === shown) return
    shown = key
    print(`${key}, ${bytesText(progress.fetched_bytes)} fetched`)
    publish(slots, { progress })
  }
  try {
    const update = await readUpdate(source.read, keysOf(PLACES.keys))
    if (automatic) {
      if (runsAlready(update.list, slots)) return undefined
      checkAutomatic(update, slots, UPDATES)
    }
    const installed = await installUpdate(update, source, slots, report)
    checkTime(until, Date.now())
    const { version, fetched_bytes: fetched, bytes } = installed
    beginTrial(slots, UPDATES, installed, Date.now())
    print(`${version} is in slot ${installed.slot}: ${bytesText(fetched)} of ${bytesText(bytes)} were fetched`)
    return installed
  } finally {
    await source.close()
  }
}

/** The exit code with which the unit of the schedule retries. */
const AGAIN = 75

/** Checks for an update by the schedule of os-node.conf; returns the exit code. */
async function scheduled(slots: Slots): Promise<number> {
  const schedule = ownersSchedule()
  const until = schedule && windowEnd(schedule, Date.now())
  if (!schedule || until === undefined) {
    console.log('outside the update time of os-node.conf')
    return 0
  }
  const { url } = schedule
  const one = {
    open: () => openSource(url, Date.now, until),
    print: console.log,
    restart: false,
    automatic: true,
    until,
  }
  const check = await checked(url, () => attempt(slots, one), Date.now)
  CHECK.write(check)
  publish(slots)
  console.log(checkText(check))
  if (check.result === 'installed') restartForTrial()
  return check.result === 'interrupted' ? AGAIN : check.result === 'refused' ? 1 : 0
}

/** Prints on the screen and the serial console, for the user with the stick, and logs the line. */
function sayOnConsoles(line: string): void {
  console.log(line)
  const consoles = orElse('', () => readFileSync('/sys/class/tty/console/active', 'latin1'))
  for (const name of consoles.trim().split(' '))
    orElse(undefined, () => writeFileSync(join('/dev', name), `\r\nos-node: ${line}\r\n`, { flag: 'a' }))
}

/** Installs the newest update of the USB stick whose partition is `name`; returns the exit code. */
async function fromStick(slots: Slots, name: string): Promise<number> {
  const folder = join(PLACES.stick, name)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  try {
    mountStick(name, folder)
  } catch (error) {
    sayOnConsoles(lineOf(error))
    return 1
  }
  if (updatesOn(folder).length === 0) {
    console.log('no update on the USB stick')
    return 0
  }
  let runs = false
  const { name: newest, refusals } = await newestOn(folder, keysOf(PLACES.keys), update => {
    runs ||= runsAlready(update.list, slots)
    checkAutomatic(update, slots, UPDATES)
  })
  // a stick that remains plugged in after an update is read again at each start
  if (!newest && runs) {
    console.log('the update on the USB stick is already running')
    return 0
  }
  const source = newest ? `USB stick, ${newest}` : 'USB stick'
  if (newest) sayOnConsoles(`${newest} is being installed from the USB stick; leave the stick in`)
  const check = await checked(
    source,
    () => {
      if (!newest) throw new OsError('E_UPDATE', refusals.join('; '), { hint: 'nothing was changed' })
      return attempt(slots, { open: () => openOn(folder, newest), print: console.log, restart: false, automatic: true })
    },
    Date.now,
  )
  CHECK.write(check)
  publish(slots)
  sayOnConsoles(
    check.result === 'installed'
      ? `${check.detail} is installed: the board restarts and tries it; remove the stick`
      : `USB stick: not installed: ${check.detail}`,
  )
  if (check.result === 'installed') restartForTrial()
  return check.result === 'installed' ? 0 : 1
}

/** The update requested by the gateway, which is not trusted more than the network. Rejects with E_UPDATE, E_UPDATE_SOURCE. */
async function openRequested(): Promise<UpdateSource> {
  const fd = openSync(PLACES.request, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  const bytes = Buffer.alloc(4096)
  const text = orElse('', () => bytes.toString('latin1', 0, readSync(fd, bytes)))
  closeSync(fd)
  rmSync(PLACES.request)
  if (text === PLACES.upload) {
    const source = await openRegular(text, 'the uploaded update', 'upload it again')
    // its space is free when the update is installed, or this process ends
    rmSync(text)
    return source
  }
  if (!/^https?:\/\/[\x21-\x7e]{1,2000}$/.test(text)) throw new OsError('E_UPDATE', 'the request contains no address')
  return openSource(text, Date.now)
}

/** Restarts the board into a factory reset if the button is held; returns the exit code. */
async function resetButton(gpio: number, chip?: string): Promise<number> {
  try {
    if (!(await heldAtStart(kernelButton(sayOnConsoles), gpio, chip))) return 0
    askForReset()
  } catch (error) {
    sayOnConsoles(lineOf(error))
    return 1
  }
  sayOnConsoles('factory reset: the board restarts and erases everything')
  execFileSync('systemctl', ['reboot'], { stdio: 'ignore' })
  return 0
}

/** Runs a command of the image's units; returns the exit code. */
async function main(command = '', name = '', chip?: string): Promise<number> {
  if (command === 'reset-button') return resetButton(Number(name), chip)
  const slots = openSlots()
  switch (command) {
    case 'boot':
      settle(slots, UPDATES, Date.now())
      break
    case 'confirm':
      if (confirm(slots, UPDATES, Date.now())) console.log('the new version works and is confirmed')
      break
    case 'give-up':
      if (giveUp(slots, UPDATES, Date.now())) {
        console.log('the new version does not work: the board restarts with the old one')
        execFileSync('systemctl', ['reboot'], { stdio: 'ignore' })
      }
      return 0
    case 'request':
      try {
        await attempt(slots, { open: openRequested, restart: true, print: console.log })
        return 0
      } catch (error) {
        console.error(asOsError(error).message)
        return 1
      }
    case 'uplink':
      takeUplink()
      return 0
    case 'scheduled':
      return scheduled(slots)
    case 'stick':
      return fromStick(slots, name)
    default:
      console.error(
        'os-node-update boot | confirm | give-up | request | reset-button GPIO | scheduled | stick NAME | uplink: for the units of the image; people use os-node update',
      )
      return 2
  }
  publish(slots)
  return 0
}

if (require.main === module)
  void main(process.argv[2], process.argv[3], process.argv[4]).then(
    code => (process.exitCode = code),
    error => {
      console.error(lineOf(error))
      process.exitCode = 1
    },
  )
