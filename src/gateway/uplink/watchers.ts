// Who hears how records leave: a command that transmits tells the packet its record became, plugins look at every packet.

export interface SentInfo {
  /** the packet as it left, without its envelope */
  readonly packet: Uint8Array
}

export class SentWatchers {
  /** hears of every packet; its bytes are only valid during the call */
  every: ((packet: Uint8Array, medium: string) => void) | undefined
  readonly #waiting = new Map<number, (info: SentInfo) => void>()

  watch(seq: number, told: (info: SentInfo) => void): void {
    this.#waiting.set(seq, told)
  }

  unwatch(seq: number): void {
    this.#waiting.delete(seq)
  }

  tell(seq: number, packet: Uint8Array, medium: string): void {
    this.every?.(packet, medium)
    const told = this.#waiting.get(seq)
    if (!told) return
    this.#waiting.delete(seq)
    told({ packet })
  }
}
