// Timers for "nothing came for so long" on a line. A busy loop runs its timers before it reads: what arrived in time would
// look like silence. So the function is called only after the loop has looked at what is there to read.
import { systemTimers, type Timers } from '../../src/lib/timers'

export const afterReading = (timers: Timers = systemTimers): Timers => ({
  after: (ms, run) => {
    let over = false
    const cancel = timers.after(ms, () =>
      setImmediate(() => {
        if (!over) run()
      }),
    )
    return () => {
      over = true
      cancel()
    }
  },
})
