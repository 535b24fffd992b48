// The board this runs on: detected once from its device tree, or set by gateway.board. Drivers resolve their pins here.

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

/** The board: as configured, or as detected. */
export function board(): Board {
  current ??= detectBoard(deviceTree())
  return current
}

/** Sets the board; null: as detected. Throws CONFIG_INVALID for an unknown name. */
export function useBoard(name: string | null): void {
  current = name === null ? undefined : boardNamed(name)
}

/**
 * Finds a pin's chip and line. Call it at every opening, because chip numbers can change when chips are replugged.
 * Throws CONFIG_INVALID (no such pin on this board), NOT_FOUND (chip or line missing), FORBIDDEN, E_NO_ADDON.
 */
export const resolvePin = (spec: PinSpec): ResolvedPin => resolveIn(worldOf(board()), spec)
