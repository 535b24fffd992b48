// The board this runs on: detected by its device tree once, or named by gateway.board. Drivers ask it where a pin is.

import type { PinSpec } from './board-options'
import { boardNamed, detectBoard, deviceTree } from './boards'
import { type ResolvedPin, resolveIn, worldOf } from './pins'
import type { Board } from './types'

export { oneWay, PIN_WAYS, type PinKeys, type PinSpec, pinEntries, pinSpec } from './board-options'
export { BOARDS, boardNamed, type DeviceTree, detectBoard, deviceTree, GENERIC } from './boards'
export { type Chip, findChips, withoutRight } from './chips'
export { hardwareOf, type WiredLink } from './hardware'
export { type PinWorld, pinName, pinText, type ResolvedPin, resolveIn, worldOf } from './pins'
export { type Board, type BoardBus, gpioNumber, type HeaderPin, headerPins } from './types'

let current: Board | undefined

/** The board: as configured, else as detected. */
export function board(): Board {
  current ??= detectBoard(deviceTree())
  return current
}

/** Names the board; null: as detected. Throws CONFIG_INVALID for an unknown name. */
export function useBoard(name: string | null): void {
  current = name === null ? undefined : boardNamed(name)
}

/**
 * Where a pin is on this machine now; chips may get other numbers when they are plugged again, so ask at every opening.
 * Throws CONFIG_INVALID (no such pin on this board), NOT_FOUND (chip or line not there), FORBIDDEN, E_NO_ADDON.
 */
export const resolvePin = (spec: PinSpec): ResolvedPin => resolveIn(worldOf(board()), spec)
