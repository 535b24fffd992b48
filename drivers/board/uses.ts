// What the configuration uses of the board. Pure. It walks the configuration as a tree, so that the options of every
// driver count, whatever their names are: a text GPIOn, an object that names a pin, a text that is a bus's device.
import { oneWay, type PinKeys } from './board-options'
import { pinName, pinText } from './pins'
import { type Board, type BoardBus, gpioNumber } from './types'

interface Uses {
  /** GPIOn, or the pin as configured if it is on no header → its users */
  readonly pins: ReadonlyMap<string, readonly string[]>
  /** bus name → its users */
  readonly buses: ReadonlyMap<string, readonly string[]>
}

/** One part of the configuration that has driver options. */
export interface UseEntry {
  /** as shown to people: 'source door' */
  readonly what: string
  readonly options: unknown
  /** the owner of its pins, if several links share them; left out: the link itself */
  readonly holder?: string
}

const PIN_KEYS = ['pin', 'header', 'chip', 'line'] as const
/** the firmware's name of the port on pins 8 and 10 (the mini UART), if udev does not map it */
const SERIAL0 = '/dev/serial0'
const MINI_UART = '/dev/ttyS0'
const TTY = /^(\/dev\/)?[A-Za-z][\w./-]*$/

/** Facts that only the machine knows; tests pass their own. */
interface Ports {
  /** target of a port name such as /dev/serial0; the name itself if it is no link */
  real(path: string): string
  /** this machine's device of a bus */
  device(bus: BoardBus): string
}

const AS_WRITTEN: Ports = { real: path => path, device: ({ device }) => device }

export function usesOf(board: Board, entries: readonly UseEntry[], ports: Ports = AS_WRITTEN): Uses {
  const pins = new Map<string, string[]>()
  const buses = new Map<string, string[]>()
  const add = (map: Map<string, string[]>, key: string, what: string): void => {
    const list = map.get(key) ?? []
    if (!list.includes(what)) map.set(key, [...list, what])
  }
  const addBus = (bus: BoardBus, what: string): void => {
    add(buses, bus.name, what)
    for (const [role, pin] of Object.entries(bus.pins)) add(pins, pin, `${bus.name} ${role}`)
  }
  for (const { what, options, holder = what } of entries)
    walk(options, '', (key, value) => {
      if (typeof value === 'object') {
        const name = pinOf(value as PinKeys, board)
        const { name: own } = value as { name?: unknown }
        if (name)
          add(pins, name, typeof own === 'string' ? `${holder}: ${own}` : key === '' ? holder : `${holder}: ${key}`)
        return
      }
      const text = String(value)
      if (gpioNumber(text) !== null && !(PIN_KEYS as readonly string[]).includes(key))
        add(pins, text, `${holder}: ${key}`)
      for (const bus of board.buses) if (isDevice(bus, key, value, ports)) addBus(bus, what)
    })
  return { pins, buses }
}

function pinOf(value: PinKeys, board: Board): string | null {
  if (!PIN_KEYS.some(key => value[key] !== undefined) || !oneWay(value)) return null
  const name = pinName(value, board)
  // many power and ground pins have the same name
  return name !== null && (gpioNumber(name) !== null || value.pin !== undefined) ? name : pinText(value)
}

function isDevice(bus: BoardBus, key: string, value: unknown, ports: Ports): boolean {
  const { kind, device } = bus
  // a second chip select is the same bus
  if (kind === 'spi') return typeof value === 'string' && value.startsWith(device.slice(0, -1))
  if (kind === 'i2c' && key === 'bus' && typeof value === 'number') return device === `/dev/i2c-${value}`
  // the kernel reads the device: no option of the source names it
  if (kind === 'w1') return key === 'type' && value === 'w1'
  if (kind === 'uart') return typeof value === 'string' && TTY.test(value) && isPort(bus, value, ports)
  return value === device
}

/** A port can be named by its file, by a link to it, or without its folder. */
function isPort(bus: BoardBus, named: string, { real, device }: Ports): boolean {
  const found = real(named.startsWith('/') ? named : `/dev/${named}`)
  return (found === SERIAL0 ? MINI_UART : found) === device(bus)
}

function walk(value: unknown, key: string, visit: (key: string, value: unknown) => void): void {
  if (Array.isArray(value)) {
    for (const item of value) walk(item, key, visit)
    return
  }
  if (value === null || value === undefined) return
  visit(key, value)
  if (typeof value === 'object') for (const [inner, item] of Object.entries(value)) walk(item, inner, visit)
}
