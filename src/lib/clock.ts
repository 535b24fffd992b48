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
