// Which log records of an uplink are on their way, and how far the upstream has everything: the cursor. It is the last
// sequence number below which nothing is outstanding; it moves only when the oldest outstanding record is acknowledged.

export interface Shipment<Payload> {
  readonly seq: number
  readonly payload: Payload
  done: boolean
}

export class Ledger<Payload> {
  #open: Shipment<Payload>[] = []
  #head = 0
  /** last record taken from the log, sent or of a kind that is not sent */
  #read: number
  #cursor: number

  constructor(cursor: number) {
    this.#read = this.#cursor = cursor
  }

  get cursor(): number {
    return this.#cursor
  }

  get outstanding(): number {
    return this.#open.length - this.#head
  }

  /** A record that is not sent (another kind, or refused): the cursor may pass it. */
  pass(seq: number): void {
    this.#read = seq
    this.#settle()
  }

  /** A record that goes out. */
  ship(seq: number, payload: Payload): Shipment<Payload> {
    const shipment = { seq, payload, done: false }
    this.#read = seq
    this.#open.push(shipment)
    return shipment
  }

  /** A record that went out before its turn: the cursor waits for it as for any other. */
  adopt(shipment: Shipment<Payload>): void {
    this.#read = shipment.seq
    this.#open.push(shipment)
  }

  /** The upstream has it. Returns true when the cursor moved. */
  done(shipment: Shipment<Payload>): boolean {
    shipment.done = true
    return this.settle()
  }

  /** Something it waits for may be done. Returns true when the cursor moved. */
  settle(): boolean {
    const before = this.#cursor
    this.#settle()
    return this.#cursor !== before
  }

  /** Forgets what is on its way; the next record to send is the one after the cursor. */
  rewind(): void {
    this.#open = []
    this.#head = 0
    this.#read = this.#cursor
  }

  #settle(): void {
    while (this.#head < this.#open.length && this.#open[this.#head]!.done) this.#head++
    if (this.#head === this.#open.length) {
      this.#open = []
      this.#head = 0
      this.#cursor = this.#read
    } else {
      this.#cursor = this.#open[this.#head]!.seq - 1
      if (this.#head > 1024) {
        this.#open = this.#open.slice(this.#head)
        this.#head = 0
      }
    }
  }
}
