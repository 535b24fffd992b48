// What every link over a bus or radio of this board has in common: the port, its speed, its pins. It stands once in
// RESOURCES.physical_config (specification, "Configuration keys"); an uplink or receiver that names only the medium takes
// it from there, and may say otherwise.
import type { Config } from '../config'
import { mediumInfo } from './registry'

/** The entry of an uplink or receiver, with what physical_config says of its medium where it says nothing itself. */
export function withHardware<Entry extends { readonly medium: string }>({ RESOURCES }: Config, entry: Entry): Entry {
  const info = mediumInfo(entry.medium)
  if (info?.layer !== 'L1') return entry
  const common = (RESOURCES.physical_config as Record<string, object | undefined>)[info.options_name]
  return { ...common, ...entry }
}
