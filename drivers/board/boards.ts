// The known boards, from the files of board/ (bundled), and detection of this board by its device tree. A machine
// without a device tree, or with an unknown one, is `generic`: no header, chips as found.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import cm4 from '../../board/cm4.json'
import generic from '../../board/generic.json'
import rpi3 from '../../board/rpi-3.json'
import rpi4 from '../../board/rpi-4.json'
import rpi5 from '../../board/rpi-5.json'
import rpiZero2W from '../../board/rpi-zero-2-w.json'
import { OsError } from '../../src/lib/errors'
import type { Board } from './types'

export const GENERIC = generic as unknown as Board

interface BoardFile extends Partial<Omit<Board, 'buses'>> {
  readonly name: string
  readonly like?: string
  readonly buses?: readonly { readonly name: string }[]
}

const FILES = [rpiZero2W, rpi3, rpi4, cm4, rpi5] as unknown as readonly BoardFile[]

/** Completes a board file: missing parts, and buses without a kind, are taken from the board it is `like`. */
function whole({ like, ...own }: BoardFile): BoardFile {
  if (like === undefined) return own
  const other = whole(FILES.find(({ name }) => name === like)!)
  const buses = own.buses?.map(bus =>
    'kind' in bus ? bus : { ...other.buses!.find(({ name }) => name === bus.name), ...bus },
  )
  return { ...other, ...own, ...(buses && { buses }) }
}

/** The last one is `generic`. */
export const BOARDS = [...FILES.map(whole), GENERIC] as readonly Board[]

export interface DeviceTree {
  /** '' without one */
  readonly model: string
  readonly compatible: readonly string[]
}

/** The machine's own description. `root` is a prefix of /proc. */
export function deviceTree(root = ''): DeviceTree {
  const texts = (file: string): string[] => {
    try {
      const text = readFileSync(join(root, '/proc/device-tree', file), 'utf8')
      return text.split('\0').filter(Boolean)
    } catch {
      return [] // no device tree: an ordinary PC, or another kind of machine
    }
  }
  return { model: texts('model')[0] ?? '', compatible: texts('compatible') }
}

/** The board with this device tree. */
export function detectBoard({ model, compatible }: DeviceTree): Board {
  return (
    BOARDS.find(board => compatible.some(name => Object.hasOwn(board.compatible, name))) ??
    BOARDS.find(board => board.model !== '' && model.startsWith(board.model)) ??
    GENERIC
  )
}

/** Throws CONFIG_INVALID for an unknown name. */
export function boardNamed(name: string): Board {
  const found = BOARDS.find(board => board.name === name)
  if (!found)
    throw new OsError('CONFIG_INVALID', `gateway.board: unknown board ${JSON.stringify(name)}`, {
      hint: `there are ${BOARDS.map(board => board.name).join(', ')}; left out: as detected`,
    })
  return found
}
