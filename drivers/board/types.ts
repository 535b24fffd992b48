// The shape of the files of board/: the pins of a board's header, the kernel's names of its parts, and the boot
// configuration that enables each bus.

import type { BusKind } from '../../src/links/hardware'

export interface BoardBus {
  /** vendor's name: i2c1 */
  readonly name: string
  readonly kind: BusKind
  /** device file, network interface (can) or sysfs folder (w1) that exists once the bus is enabled */
  readonly device: string
  /** serial ports: name of the device in sysfs, which identifies the port whatever its number is */
  readonly address?: string
  /** further kernel modules that must be loaded */
  readonly modules?: readonly string[]
  /** function → GPIO name */
  readonly pins: Readonly<Record<string, string>>
  /** lines of the boot configuration that enable it: one of these lists is enough */
  readonly enable: readonly (readonly string[])[]
  readonly note?: string
}

export interface Board {
  readonly name: string
  readonly title: string
  /** entries of the device tree's `compatible` that mean this board → sections of config.txt that apply to it */
  readonly compatible: Readonly<Record<string, readonly string[]>>
  /** the start of its `model`; '' for none */
  readonly model: string
  /** paths of the firmware's configuration; the first that exists is used */
  readonly boot_config: readonly string[]
  /** labels of the chip whose lines are the GPIO numbers, and its number of lines */
  readonly gpio: { readonly labels: readonly string[]; readonly lines: number }
  /** name on the board → names in /sys/class/leds, newest kernel first */
  readonly leds: Readonly<Record<string, readonly string[]>>
  /** rows of the header: [odd pin, even pin]; 3V3, 5V, GND or GPIOn */
  readonly header: readonly (readonly string[])[]
  /** GPIOn → the pin's alternate functions */
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

/** Every pin of the header, by number; empty for a board without a known header. */
export const headerPins = ({ header }: Board): HeaderPin[] =>
  header.flat().map((name, k) => ({ header: k + 1, name, gpio: gpioNumber(name) }))

/** 17 of 'GPIO17'; null for anything else. */
export function gpioNumber(name: string): number | null {
  const digits = /^GPIO(\d{1,3})$/.exec(name)?.[1]
  return digits === undefined ? null : Number(digits)
}
