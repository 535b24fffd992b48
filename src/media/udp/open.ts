// Selects the socket of a UDP medium: the addon's if it exists, else, or by option, node:dgram's.
import type { Native } from '../../native'
import { nativeOrNull } from '../../native'
import { openBatch } from './batch'
import { openPlain } from './plain'
import type { UdpPort, UdpPortOptions } from './port'

/** `batch` is the medium's option; `addon` is for tests. Rejects with the system's error. */
export async function openPort(
  options: UdpPortOptions,
  batch: 'auto' | 'off',
  addon: Native | null = batch === 'auto' ? nativeOrNull() : null,
): Promise<UdpPort> {
  return addon ? openBatch(options, addon) : openPlain(options)
}
