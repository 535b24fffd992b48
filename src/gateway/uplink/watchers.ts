// Who waits to hear how a record left: a command that transmits tells the packet it became. Each is told once.

export interface SentInfo {
  /** the packet as it left, without its envelope */
  readonly packet: Uint8Array
}

export class SentWatchers {
  readonly #waiting = new Map<number, (info: SentInfo) => void>()

  watch(seq: number, told: (info: SentInfo) => void): void {
    this.#waiting.set(seq, told)
  }

  unwatch(seq: number): void {
    this.#waiting.delete(seq)
  }

  tell(seq: number, packet: Uint8Array): void {
    const told = this.#waiting.get(seq)
    if (!told) return
    this.#waiting.delete(seq)
    told({ packet })
  }
}
