// The memory that an emulated board uses.
import type { Board } from './board'

/** The memory in use by the system, in MB (2^20 bytes). */
export interface Use {
  system: number
  gateway: number
  /** pages since the start */
  swapped: number
}

export async function use(board: Board): Promise<Use> {
  const asked = 'cat /proc/meminfo /proc/vmstat /proc/$(systemctl show --property=MainPID --value os-node)/status'
  const { text } = await board.shell(asked)
  const number = (name: string): number => Number(new RegExp(`^${name}:?\\s+(\\d+)`, 'm').exec(text)?.[1])
  return {
    system: (number('MemTotal') - number('MemAvailable')) / 1024,
    gateway: number('VmRSS') / 1024,
    swapped: number('pswpin') + number('pswpout'),
  }
}

export const shown = ({ system, gateway }: Use): string =>
  `system ${Math.round(system)} MB, os-node ${Math.round(gateway)} MB`
