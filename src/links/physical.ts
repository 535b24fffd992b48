// What every link over a bus or radio of this board has in common: the port, its speed, its pins. It is written once in
// RESOURCES.physical_config (specification, "Configuration keys"); an uplink or receiver that names only the medium takes
// it from there, and may say otherwise.
import { mediumInfo } from './registry'

/** The entry of an uplink or receiver, with what `section` (physical_config by name) says where it says nothing itself. */
export function withHardware<Entry extends { readonly medium: string }>(
  section: (name: string) => unknown,
  entry: Entry,
): Entry {
  const info = mediumInfo(entry.medium)
  if (info?.layer !== 'L1') return entry
  return { ...(section(info.options_name) as object | undefined), ...entry }
}
