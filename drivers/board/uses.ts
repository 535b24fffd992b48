// What the configuration uses of the board: pure. It is walked as a tree, so that every driver's options count, whatever their
// names are: a text GPIOn, an object that names a pin, a text that is a bus's device.
import { oneWay, type PinKeys } from './options'
import { pinName } from './pins'
import { type Board, type BoardBus, gpioNumber } from './types'

export interface Uses {
  /** GPIOn → what uses it */
  readonly pins: ReadonlyMap<string, readonly string[]>
  /** bus name → what uses it */
  readonly buses: ReadonlyMap<string, readonly string[]>
}

/** One part of the configuration with options of a driver. */
export interface UseEntry {
  /** as people know it: 'source door' */
  readonly what: string
  readonly options: unknown
}

const PIN_KEYS = ['pin', 'header', 'chip', 'line'] as const
/** names that udev or the firmware gives to devices */
const SERIAL0 = /^\/dev\/serial0$/

export function usesOf(board: Board, entries: readonly UseEntry[]): Uses {
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
  for (const { what, options } of entries)
    walk(options, '', (key, value) => {
      if (typeof value === 'object') {
        const name = pinOf(value as PinKeys, board)
        const { name: own } = value as { name?: unknown }
        if (name) add(pins, name, typeof own === 'string' ? `${what}: ${own}` : key === '' ? what : `${what}: ${key}`)
        return
      }
      const text = String(value)
      if (gpioNumber(text) !== null && !(PIN_KEYS as readonly string[]).includes(key))
        add(pins, text, `${what}: ${key}`)
      for (const bus of board.buses) if (isDevice(bus, key, value)) addBus(bus, what)
    })
  return { pins, buses }
}

function pinOf(value: PinKeys, board: Board): string | null {
  if (!PIN_KEYS.some(key => value[key] !== undefined) || !oneWay(value)) return null
  const name = pinName(value, board)
  return name !== null && gpioNumber(name) !== null ? name : null
}

function isDevice({ name, kind, device }: BoardBus, key: string, value: unknown): boolean {
  // a second chip select is the same bus
  if (kind === 'spi') return typeof value === 'string' && value.startsWith(device.slice(0, -1))
  if (kind === 'i2c' && key === 'bus' && typeof value === 'number') return device === `/dev/i2c-${value}`
  if (kind === 'uart' && name === 'uart1' && typeof value === 'string' && SERIAL0.test(value)) return true
  return value === device
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
