// Time is handed in, so that time-critical code is tested without waiting. `wall` may jump, `mono` never does.

export interface Clock {
  /** UNIX time in milliseconds, as the operating system has it */
  wall(): number
  /** milliseconds since an arbitrary start; never goes back */
  mono(): number
}

export const systemClock: Clock = {
  wall: () => Date.now(),
  mono: () => performance.now(),
}

/** A clock for tests: stands still until moved. */
export class ManualClock implements Clock {
  constructor(
    public wallMs = 1_710_000_000_000,
    public monoMs = 0,
  ) {}
  wall(): number {
    return this.wallMs
  }
  mono(): number {
    return this.monoMs
  }
  advance(ms: number): void {
    this.wallMs += ms
    this.monoMs += ms
  }
}
