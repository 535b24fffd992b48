// `os-node board`: the header with the user of each pin, the buses with what they lack, the LEDs. Reads the machine's
// files below `root`; a file that cannot be read counts as missing. Changes nothing.

import { accessSync, constants, existsSync, readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { orElse } from '../../src/lib/errors'
import type { BoardReport, BusKind, BusReport } from '../../src/links/hardware'
import type { DeviceTree } from './boards'
import { type BootConfig, bootConfigOf } from './bootconfig'
import type { Board, BoardBus } from './types'
import { headerPins } from './types'
import { type UseEntry, usesOf } from './uses'

const GROUPS: Readonly<Record<BusKind, string>> = { i2c: 'i2c', spi: 'spi', uart: 'dialout', can: 'root', w1: 'root' }

interface ReportInput {
  readonly board: Board
  readonly tree: DeviceTree
  readonly configured: boolean
  readonly entries: readonly UseEntry[]
  /** in front of every path */
  readonly root?: string
}

export function boardReport({ board, tree, configured, entries, root = '' }: ReportInput): BoardReport {
  const uses = usesOf(board, entries, {
    real: path => realOf(path, root),
    device: bus => portAt(bus, root) ?? bus.device,
  })
  const bootConfig = board.boot_config.find(path => existsSync(join(root, path))) ?? null
  const sections =
    tree.compatible.find(name => Object.hasOwn(board.compatible, name)) ?? Object.keys(board.compatible)[0]
  const boot = bootConfigOf(
    bootConfig === null ? '' : textOf(join(root, bootConfig)),
    board.compatible[sections ?? ''] ?? [],
  )
  return {
    board: board.name,
    title: board.title,
    by: configured ? 'configuration' : board.name === 'generic' ? 'default' : 'device tree',
    model: tree.model,
    boot_config: bootConfig,
    pins: headerPins(board).map(({ header, name }) => ({
      header,
      name,
      functions: functionsOf(board, name),
      used_by: uses.pins.get(name) ?? [],
    })),
    off_header: [...uses.pins]
      .filter(([pin]) => !headerPins(board).some(({ name }) => name === pin))
      .map(([name, used_by]) => ({ name, used_by })),
    buses: board.buses.map(bus => busReport(bus, uses.buses.get(bus.name) ?? [], { root, boot, bootConfig, board })),
    leds: Object.fromEntries(
      Object.entries(board.leds).map(([led, names]) => [
        led,
        names.map(name => `/sys/class/leds/${name}`).find(path => existsSync(join(root, path))) ?? null,
      ]),
    ),
    clashes: [...uses.pins].flatMap(([pin, by]) => (by.length > 1 ? [`${pin}: ${by.join(' and ')}`] : [])),
  }
}

/** The functions of a pin, those of this board's buses first, because there is room for only a few. */
function functionsOf({ functions, buses }: Board, pin: string): readonly string[] {
  const own = buses.flatMap(({ name, pins }) =>
    Object.entries(pins).flatMap(([role, at]) => (at === pin ? [`${name.toUpperCase()}_${role}`] : [])),
  )
  const all = functions[pin] ?? []
  return [...all.filter(text => own.includes(text)), ...all.filter(text => !own.includes(text))]
}

interface Machine {
  readonly root: string
  readonly boot: BootConfig
  readonly bootConfig: string | null
  readonly board: Board
}

function busReport(bus: BoardBus, used_by: readonly string[], machine: Machine): BusReport {
  const { name, kind, note } = bus
  const device = portAt(bus, machine.root) ?? bus.device
  const path = join(machine.root, kind === 'can' ? `/sys/class/net/${device}` : device)
  const about = { name, kind, device, used_by, ...(note !== undefined && { note }) }
  if (!existsSync(path) || (bus.address !== undefined && portAt(bus, machine.root) === null))
    return { ...about, state: 'missing', todo: howToEnable(bus, machine) }
  if (kind === 'can' && !isUp(path))
    return {
      ...about,
      state: 'missing',
      todo: `${canUnit(device)}, or sudo ip link set ${device} up type can bitrate …`,
    }
  if (!path.includes('/dev/') || mayUse(path)) return { ...about, state: 'ready' }
  return { ...about, state: 'no_right', todo: `sudo usermod -aG ${GROUPS[kind]} $USER, then log in again` }
}

const canUnit = (name: string): string => `sudo systemctl enable --now os-node-can@${name} (docs/wiring.md)`

/** Whether a network interface is up: IFF_UP, the lowest bit of its flags. */
const isUp = (path: string): boolean => (Number(textOf(join(path, 'flags'))) & 1) === 1

/** The port at the bus's address, whatever its number: /dev/ttyAMA2; null if there is none. */
function portAt({ address }: BoardBus, root: string): string | null {
  if (address === undefined) return null
  const dir = join(root, '/sys/class/tty')
  // the link's path names each device between bus and port; kernels since 6.4 insert the port's own
  // (fe201000.serial:0.0) between chip and tty
  const isAt = (tty: string): boolean =>
    orElse('', () => readlinkSync(join(dir, tty)))
      .split('/')
      .includes(address)
  const tty = listOf(dir).find(isAt)
  return tty === undefined ? null : `/dev/${tty}`
}

function howToEnable(
  { enable, modules = [], kind, device }: BoardBus,
  { root, boot, bootConfig, board }: Machine,
): string {
  const requested = enable.some(lines => lines.every(line => boot.lines.includes(line)))
  const missing = modules.filter(module => !existsSync(join(root, '/sys/module', module.replaceAll('-', '_'))))
  if (requested && missing.length > 0)
    return `sudo modprobe ${missing.join(' ')} (and its name in /etc/modules-load.d/os-node.conf)`
  if (requested) return kind === 'can' ? `reboot; then ${canUnit(device)}` : 'reboot'
  const file = bootConfig ?? board.boot_config[0]
  const alternatives = enable.map(lines => lines.join(' and '))
  const also = missing.length > 0 ? `; then modprobe ${missing.join(' ')}` : ''
  return `add to ${file}${boot.open ? '' : ', below a line [all]'}: ${alternatives.join(', or ')}; reboot${also}`
}

/** The target of a link such as /dev/serial0 or one in /dev/serial/by-id. */
const realOf = (path: string, root: string): string =>
  orElse(path, () => realpathSync(join(root, path)).slice(root === '' ? 0 : realpathSync(root).length))

const mayUse = (path: string): boolean =>
  orElse(false, () => {
    accessSync(path, constants.R_OK | constants.W_OK)
    return true
  })

/** An unreadable file counts as empty: the advice then names every line. */
const textOf = (path: string): string => orElse('', () => readFileSync(path, 'utf8'))

/** Empty: this machine has no such class. */
const listOf = (dir: string): string[] => orElse([], () => readdirSync(dir))
