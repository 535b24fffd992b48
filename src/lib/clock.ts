// An injected clock, so that time-critical code is tested without waiting. `wall` may jump, `mono` never does.

export interface Clock {
  /** UNIX time in milliseconds of the operating system */
  wall(): number
  /** milliseconds since an arbitrary start; never goes back */
  mono(): number
}

export const systemClock: Clock = {
  wall: () => Date.now(),
  mono: () => performance.now(),
}

/** A UNIX time in ms for people: in UTC, without milliseconds. */
export const timeText = (ms: number): string => new Date(ms).toISOString().slice(0, 19) + 'Z'
