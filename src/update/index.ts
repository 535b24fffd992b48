// dist/os-node-update.js: installs updates of the SD image, shows the slots, and decides a trial. `os-node update` and `os-node slots`
// load it; units of the image run it: `os-node-update boot | confirm | give-up`. It is a file of its own: only the image has slots.
// Errors: NO_SLOTS, E_UPDATE, E_UPDATE_SOURCE.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { orElse } from '../lib/errors'
import { readUpdate } from './file'
import { checkUpdate, installUpdate, type Progress } from './install'
import { openSlots, type Slots, versionOn } from './slots'
import { openSource } from './source'
import { confirm, giveUp, type LastUpdate, LastUpdates, settle } from './trial'

export { writeUpdate } from './file'

const PLACES = {
  keys: '/usr/lib/os-node/update-keys',
  last: '/data/update/last.json',
  progress: '/run/os-node-update.json',
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
  const progress = orElse(undefined, () => JSON.parse(readFileSync(PLACES.progress, 'utf8')) as Progress)
  return {
    ok: true,
    board: slots.board,
    slots: shown.sort((a, b) => a.slot.localeCompare(b.slot)),
    ...(last && { last_update: last }),
    ...(progress && { progress }),
  }
}

function asText({ board, slots, last_update: last, progress }: Shown): string {
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
  ].join('\n')
}

/** What `os-node slots` prints. Throws NO_SLOTS. */
export function showSlots(): Shown & { text: string } {
  const shown = show(openSlots())
  return { ...shown, text: asText(shown) }
}

/** Installs the update of a file or URL. Rejects with NO_SLOTS, E_UPDATE, E_UPDATE_SOURCE. */
export async function update(name: string, restart: boolean, print: (line: string) => void): Promise<object> {
  const slots = openSlots()
  const source = await openSource(name)
  let shown = ''
  const report = (progress: Progress): void => {
    const text = `${progress.step} ${Math.floor(progress.done * 20) * 5} %, ${mib(progress.fetched_bytes)} MB fetched`
    const key = text.slice(0, text.indexOf(','))
    if (key === shown) return
    shown = key
    print(text)
    writeFileSync(PLACES.progress, JSON.stringify(progress))
  }
  try {
    const update = await readUpdate(source.read, keysOf(PLACES.keys))
    checkUpdate(update, slots)
    const installed = await installUpdate(update, source, slots, report)
    new LastUpdates(PLACES.last).write({
      version: installed.version,
      from: installed.from,
      slot: slots.other.name,
      outcome: 'trial',
      at: Date.now(),
    })
    print(
      `${installed.version} is in slot ${installed.slot}: ${mib(installed.fetched_bytes)} MB of ${mib(installed.bytes)} MB were fetched`,
    )
    if (restart) {
      print('the board starts again and tries it; it goes back to the old version unless the gateway works')
      execFileSync('systemctl', ['reboot'], { stdio: 'ignore' })
    }
    return { ok: true, ...installed }
  } finally {
    await source.close()
    orElse(undefined, () => writeFileSync(PLACES.progress, ''))
  }
}

/** Runs a command of the image's units; the exit code. */
function main(command = ''): number {
  const slots = openSlots()
  const updates = new LastUpdates(PLACES.last)
  if (command === 'boot') settle(slots, updates, Date.now())
  else if (command === 'confirm') {
    if (confirm(slots, updates, Date.now())) console.log('the new version works and is confirmed')
  } else if (command === 'give-up') {
    if (giveUp(slots, updates, Date.now())) {
      console.log('the new version does not work: the board starts again with the old one')
      execFileSync('systemctl', ['reboot'], { stdio: 'ignore' })
    }
  } else {
    console.error('os-node-update boot | confirm | give-up: for the units of the image; people use os-node update')
    return 2
  }
  return 0
}

if (require.main === module) process.exitCode = main(process.argv[2])
