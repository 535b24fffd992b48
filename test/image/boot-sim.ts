// Plays the firmware of a Raspberry Pi up to the kernel, by its documentation (config.txt, autoboot.txt, conditional filters): which
// boot partition starts, and with which of its files. It does not play features that no file of ours uses (boot.img, network, USB).
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { orElse } from '../../src/lib/errors'
import { removeDir } from '../lib/gateway'

/** A file of a partition; undefined if it does not exist. */
export type Reader = (partition: number, name: string) => Buffer | undefined

export interface Start {
  readonly partition: number
  /** the names of its files */
  readonly kernel: string
  readonly initramfs?: string
  readonly commandLine: string
  readonly overlays: string[]
  /** after so many seconds the board starts again, where nothing uses the watchdog */
  readonly watchdog?: number
}

/** autoboot.txt is not read beyond this */
const AUTOBOOT_BYTES = 512

/**
 * The lines of a file whose sections apply: `[all]` always, `[tryboot]` in a trial, the name of the model, otherwise
 * not.
 */
function linesOf(text: string, holds: ReadonlySet<string>): string[] {
  const lines: string[] = []
  let on = true
  for (const line of text.split(/\r?\n/).map(one => one.trim())) {
    const section = /^\[(.+)\]$/.exec(line)?.[1]
    if (section) on = section === 'all' || holds.has(section)
    else if (on && line && !line.startsWith('#')) lines.push(line)
  }
  return lines
}

/** The last value of a setting. */
const last = (lines: string[], key: string): string | undefined =>
  lines
    .filter(line => line.startsWith(`${key}=`))
    .at(-1)
    ?.slice(key.length + 1)

/** What the firmware of `model` (pi4, cm4 …) starts; `flag`: the restart was one with the tryboot flag. Undefined: nothing. */
export function startOf(read: Reader, { flag, model = 'pi4' }: { flag: boolean; model?: string }): Start | undefined {
  const holds = new Set([model, ...(flag ? ['tryboot'] : [])])
  const autoboot = read(1, 'autoboot.txt')?.subarray(0, AUTOBOOT_BYTES).toString('latin1') ?? ''
  const choice = linesOf(autoboot, holds)
  const partition = Number(last(choice, 'boot_partition') ?? 1)
  // without tryboot_a_b a trial is another file of the same partition
  const configName = flag && last(choice, 'tryboot_a_b') !== '1' ? 'tryboot.txt' : 'config.txt'
  const config = read(partition, configName)?.toString('latin1')
  if (config === undefined) return undefined
  const lines = linesOf(config, holds)
  const prefix = last(lines, 'os_prefix') ?? ''
  const kernel = prefix + (last(lines, 'kernel') ?? 'kernel8.img')
  // Raspberry Pi 5 has it in its EEPROM
  const firmware = model === 'pi5' || read(partition, 'start4.elf')
  if (!firmware || !read(partition, kernel)) return undefined
  const watchdog = Number(last(lines, 'kernel_watchdog_timeout') ?? 0)
  const commandLine = (
    read(partition, prefix + (last(lines, 'cmdline') ?? 'cmdline.txt'))?.toString('latin1') ?? ''
  ).trim()
  const initramfs = lines.map(line => /^initramfs (\S+) followkernel$/.exec(line)?.[1]).findLast(Boolean)
  return {
    partition,
    kernel,
    ...(initramfs && { initramfs: prefix + initramfs }),
    commandLine: watchdog > 0 ? `${commandLine} watchdog.open_timeout=${watchdog}` : commandLine,
    ...(watchdog > 0 && { watchdog }),
    overlays: lines.filter(line => line.startsWith('dtoverlay=')).map(line => line.slice('dtoverlay='.length)),
  }
}

/** The boot partitions of the card in the file `card`; `places`: the offset of each, in bytes. */
export function cardReader(card: string, places: Readonly<Record<number, number>>): Reader {
  return (partition, name) => {
    const dir = mkdtempSync(join(tmpdir(), 'os-node-fat-'))
    try {
      return orElse(undefined, () => {
        const from = ['-n', '-i', `${card}@@${places[partition]}`, `::${name}`, join(dir, 'file')]
        execFileSync('mcopy', from, { stdio: 'pipe' })
        return readFileSync(join(dir, 'file'))
      })
    } finally {
      removeDir(dir)
    }
  }
}
