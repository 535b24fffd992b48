// Shared hardware settings of links over a bus or radio of this board: the port, its speed, its pins. They are written
// once in RESOURCES.physical_config (specification, "Configuration keys"); an uplink or receiver that names only the
// medium uses them, and may override them.
import { mediumInfo } from './registry'

/** The entry of an uplink or receiver, with `section` (physical_config by name) as the default of missing keys. */
export function withHardware<Entry extends { readonly medium: string }>(
  section: (name: string) => unknown,
  entry: Entry,
): Entry {
  const info = mediumInfo(entry.medium)
  if (info?.layer !== 'L1') return entry
  return { ...(section(info.options_name) as object | undefined), ...entry }
}
