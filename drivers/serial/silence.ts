// Timers for "nothing received for this long" on a line. A busy event loop runs its timers before it reads, so bytes
// that arrived in time would look like silence. So the function is called only after the loop has read what is
// available.
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
