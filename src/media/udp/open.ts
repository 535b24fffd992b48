// Which socket a UDP medium gets: the addon's when there is one, node:dgram's otherwise or by option.
import type { Native } from '../../native'
import { nativeOrNull } from '../../native'
import { openBatch } from './batch'
import { openPlain } from './plain'
import type { UdpPort, UdpPortOptions } from './port'

/** `batch` as in the options of the medium; `addon` is for tests. Rejects with the system's error. */
export async function openPort(
  options: UdpPortOptions,
  batch: 'auto' | 'off',
  addon: Native | null = batch === 'auto' ? nativeOrNull() : null,
): Promise<UdpPort> {
  return addon ? openBatch(options, addon) : openPlain(options)
}
