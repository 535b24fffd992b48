// A medium that counts as open only when the peer behind it answered (X29: no answer means the link is `down`, and is tried
// again later). So the link's state tells the truth about datagram media, which open without asking anybody.
import type { Medium, OpenableEvents, PacketHandler } from '../../links/contracts'

export class ProbedMedium implements Medium {
  readonly name: string
  readonly medium: string
  readonly #inner: Medium
  readonly #probe: () => Promise<void>

  /** `probe` settles when the peer answered and throws LINK_DOWN when it did not. */
  constructor(inner: Medium, probe: () => Promise<void>) {
    this.name = inner.name
    this.medium = inner.medium
    this.#inner = inner
    this.#probe = probe
  }

  get maxPacket(): number {
    return this.#inner.maxPacket
  }
  get counters(): Medium['counters'] {
    return this.#inner.counters
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.#inner.open(events)
    await this.#probe()
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  send(packet: Uint8Array): Promise<boolean> {
    return this.#inner.send(packet)
  }

  onPacket(handler: PacketHandler): void {
    this.#inner.onPacket(handler)
  }
}
