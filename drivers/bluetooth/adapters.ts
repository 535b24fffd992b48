// The adapters in use on this machine, by name: media and sources that name the same adapter share it.
import { realFiles } from '../../src/lib/files'
import { systemTimers } from '../../src/lib/timers'
import type { DriverContext } from '../../src/links/contracts'
import { Adapter } from './adapter'
import { bluetoothdRuns } from './machine'
import { NobleRadio } from './noble'
import type { BleRadio } from './radio'

const known = new Map<string, Adapter>()

const keyOf = (name: string, extended: boolean): string => (extended ? `${name} extended` : name)

/**
 * The adapter `name` (hci0). The library opens an adapter either with or without extended scanning, and two such users
 * would end each other's scans: the second one is refused (LINK_DOWN, retried, because a reload changes them one by
 * one). `radio` is for tests.
 */
export function sharedAdapter(
  name: string,
  extended: boolean,
  { clock, logger }: DriverContext,
  radio: BleRadio = new NobleRadio({ adapter: name, extended, logger }),
): Adapter {
  const key = keyOf(name, extended)
  const there = known.get(key)
  if (there) return there
  const made = new Adapter({
    name,
    radio,
    clock,
    timers: systemTimers,
    logger,
    present: () => realFiles.exists(`/sys/class/bluetooth/${name}`),
    taken: () =>
      known.get(keyOf(name, !extended))?.inUse
        ? `${name} is in use with extended_scan ${!extended}: set the same value everywhere`
        : '',
    suspicion: () => (bluetoothdRuns(realFiles) ? '; bluetoothd scans too: systemctl disable --now bluetooth' : ''),
  })
  known.set(key, made)
  return made
}
