// The adapters of this machine that are in use, by name: media and sources that name the same one share it.
import { realFiles } from '../../src/lib/files'
import type { DriverContext } from '../../src/links/contracts'
import { systemTimers } from '../../src/links/timers'
import { Adapter } from './adapter'
import { bluetoothdRuns } from './machine'
import { NobleRadio } from './noble'

const known = new Map<string, Adapter>()

/** The adapter `name` (hci0). With extended scanning it is another thing to the driver, and both cannot be open at once. */
export function sharedAdapter(name: string, extended: boolean, { clock, logger }: DriverContext): Adapter {
  const key = extended ? `${name} extended` : name
  const there = known.get(key)
  if (there) return there
  const made = new Adapter({
    name,
    radio: new NobleRadio({ adapter: name, extended, logger }),
    clock,
    timers: systemTimers,
    logger,
    present: () => realFiles.exists(`/sys/class/bluetooth/${name}`),
    suspicion: () => (bluetoothdRuns(realFiles) ? '; bluetoothd scans too: systemctl disable --now bluetooth' : ''),
  })
  known.set(key, made)
  return made
}
