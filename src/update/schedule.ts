// When the board checks for an update automatically: the address and the time window of os-node.conf, as stored by its script
// (src/build/image/root/usr/lib/os-node/setup). A system timer starts the check; the window is checked here again, since a
// clock change may let the timer fire at any time. Times are UTC.
import { orElse } from '../lib/errors'

export interface UpdateSchedule {
  readonly url: string
  /** `HH:MM-HH:MM`; if the end is before the start, the window ends on the next day */
  readonly time: string
  /** `sun,wed`: the days on which a window begins; empty: every day */
  readonly days: string
}

const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS

/** The schedule in the three lines of the script; undefined if there is none. `read` returns the text. */
export function scheduleOf(read: () => string): UpdateSchedule | undefined {
  const [url = '', time = '', days = ''] = orElse('', read).split('\n')
  return /^https?:\/\/\S+$/.test(url) && /^\d\d:\d\d-\d\d:\d\d$/.test(time) ? { url, time, days } : undefined
}

/** The end of the window that contains `now`, in UNIX ms; undefined outside of it. */
export function windowEnd({ time, days }: UpdateSchedule, now: number): number | undefined {
  const [from, to] = time.split('-').map(part => {
    const [hours, minutes] = part.split(':').map(Number)
    return (hours! * 60 + minutes!) * MINUTE_MS
  })
  const length = to! > from! ? to! - from! : to! + DAY_MS - from!
  const today = Math.floor(now / DAY_MS) * DAY_MS
  const begins = [today, today - DAY_MS].map(day => day + from!)
  const begin = begins.find(
    at => now >= at && now < at + length && (days === '' || days.split(',').includes(DAYS[new Date(at).getUTCDay()]!)),
  )
  return begin === undefined ? undefined : begin + length
}
