// The shape of the files of board/: what a board's header carries, how its kernel calls its parts, and what its boot
// configuration must say before a bus is there.

import type { BusKind } from '../../src/links/hardware'

export interface BoardBus {
  /** as the vendor names it: i2c1 */
  readonly name: string
  readonly kind: BusKind
  /** device file, network interface (can) or folder in sysfs (w1) that is there once it is enabled */
  readonly device: string
  /** serial ports: the name of its device in sysfs, which tells the port whatever its number is */
  readonly address?: string
  /** kernel modules that must be loaded besides */
  readonly modules?: readonly string[]
  /** what → GPIO name */
  readonly pins: Readonly<Record<string, string>>
  /** lines of the boot configuration that bring it: one of these lists */
  readonly enable: readonly (readonly string[])[]
  readonly note?: string
}

export interface Board {
  readonly name: string
  readonly title: string
  /** entries of the device tree's `compatible` that mean this board → the sections of config.txt that are for it */
  readonly compatible: Readonly<Record<string, readonly string[]>>
  /** how its `model` begins; '' for none */
  readonly model: string
  /** where the firmware reads its configuration; the first that exists counts */
  readonly boot_config: readonly string[]
  /** labels of the chip whose lines are the GPIO numbers, and how many it has */
  readonly gpio: { readonly labels: readonly string[]; readonly lines: number }
  /** name on the board → names in /sys/class/leds, newest kernel first */
  readonly leds: Readonly<Record<string, readonly string[]>>
  /** rows of the header: [odd pin, even pin]; 3V3, 5V, GND or GPIOn */
  readonly header: readonly (readonly string[])[]
  /** GPIOn → what else its pin can be */
  readonly functions: Readonly<Record<string, readonly string[]>>
  readonly buses: readonly BoardBus[]
}

/** One pin of the header. */
export interface HeaderPin {
  /** 1 to 40 */
  readonly header: number
  /** 3V3, 5V, GND or GPIOn */
  readonly name: string
  /** null: power or ground */
  readonly gpio: number | null
}

/** Every pin of the header, in the order of their numbers; empty for a board without a known one. */
export const headerPins = ({ header }: Board): HeaderPin[] =>
  header.flat().map((name, k) => ({ header: k + 1, name, gpio: gpioNumber(name) }))

/** 17 of 'GPIO17'; null for anything else. */
export function gpioNumber(name: string): number | null {
  const digits = /^GPIO(\d{1,3})$/.exec(name)?.[1]
  return digits === undefined ? null : Number(digits)
}
