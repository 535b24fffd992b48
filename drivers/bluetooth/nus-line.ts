// A byte stream to one peer over the Nordic UART service: this gateway is the central, the peer advertises. The peer is
// named by its address or its advertised name. A frame is split at the connection's MTU less the three bytes of its
// header. Only the last piece is written with a response, so that the peer's speed limits ours.
//
// Errors: the peer is not heard (LINK_DOWN; while down, the link watches advertisements and reconnects as soon as the
// peer is heard); the peer does not answer or lacks the service; the peer disconnects (lost); the peer does not confirm
// a write (the connection is closed).
import { within } from '../../src/lib/deadline'
import { closedWhileOpening, OsError } from '../../src/lib/errors'
import { SerialQueue } from '../../src/lib/serial-queue'
import type { Timers } from '../../src/lib/timers'
import type { Line, OpenableEvents } from '../../src/links/contracts'
import { bleAddress, localName } from './ad'
import type { Adapter, AdapterUser } from './adapter'
import type { BleConnection, Report, StreamService } from './radio'

/** 6e40000N-b5a3-f393-e0a9-e50e24dcca9e */
const nus = (n: number): string => `6e40000${n}b5a3f393e0a9e50e24dcca9e`
const NUS: StreamService = { service: nus(1), write: nus(2), notify: nus(3) }

/** the largest MTU that fits one radio packet with data length extension: 251 - 4 (L2CAP) */
const MTU = 247
const ATT_HEADER = 3
const WRITE_MS = 10_000

interface NusLineOptions {
  name: string
  /** address or advertised name */
  peer: string
  adapter: Adapter
  timers: Timers
  /** time limit until the peer is heard */
  findMs: number
  /** time limit from then until the stream is open */
  connectMs: number
  silenceMs?: number | undefined
}

export class NusLine implements Line {
  readonly name: string
  readonly #options: NusLineOptions
  readonly #address: string | null
  readonly #tally = { rx: 0, tx: 0, errors: 0 }
  #handler: (chunk: Uint8Array) => void = () => undefined
  #user: AdapterUser | undefined
  #connection: BleConnection | undefined
  #peer = ''
  /** the link is down because the peer was not heard: only then does an advertisement start a reconnect */
  #absent = true
  #giveUp: (error: OsError) => void = () => undefined
  readonly #writes = new SerialQueue()

  constructor(options: NusLineOptions) {
    this.name = options.name
    this.#options = options
    this.#address = bleAddress(options.peer)
  }

  get counters(): { rx: number; tx: number; errors: number; detail: Readonly<Record<string, number>> } {
    return { ...this.#tally, detail: this.#options.adapter.detail }
  }

  /** address of the peer, after the first connection */
  get peer(): string {
    return this.#peer || this.#options.peer
  }

  get rssi(): number | null {
    return this.#connection?.rssi ?? null
  }

  /** number of bytes per write; 0 while closed */
  onData(handler: (chunk: Uint8Array) => void): void {
    this.#handler = handler
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    const { adapter, silenceMs } = this.#options
    const user: AdapterUser = {
      lost: reason => {
        this.#giveUp(new OsError('LINK_DOWN', reason))
        events.lost(reason)
      },
      // a working stream is better evidence than a silent scan
      degraded: reason => {
        if (!this.#connection) events.degraded(reason)
      },
    }
    this.#user = user
    this.#absent = true
    try {
      await adapter.join(user, { silenceMs })
      const report = await this.#find()
      this.#absent = false
      await this.#connect(report, events, user)
    } catch (error) {
      if (this.#user === user) await this.close()
      throw error
    }
  }

  async close(): Promise<void> {
    const user = this.#user
    this.#user = undefined
    this.#giveUp(closedWhileOpening())
    const connection = this.#connection
    this.#connection = undefined
    connection?.disconnect()
    if (user) await this.#options.adapter.leave(user)
  }

  /** While down: watches for advertisements of a peer that was absent. */
  onReturn(back: () => void): () => void {
    const { adapter } = this.#options
    if (!this.#absent) return () => undefined
    const unlook = adapter.onReturn(back)
    const user: AdapterUser = { lost: () => undefined, degraded: () => undefined }
    let ended = false
    let unlisten = (): void => undefined
    adapter.join(user).then(
      () => {
        if (!ended) unlisten = this.#listen(() => back())
      },
      () => undefined, // the adapter is missing too: `unlook` reports its return
    )
    return () => {
      ended = true
      unlook()
      unlisten()
      void adapter.leave(user)
    }
  }

  /** Splits, writes, waits for the response to the last piece. Throws LINK_DOWN. */
  write(bytes: Uint8Array): Promise<void> {
    return this.#writes.run(() => this.#write(bytes))
  }

  #listen(onReport: (report: Report) => void): () => void {
    const { adapter, peer } = this.#options
    if (this.#address !== null) return adapter.listen(this.#address, onReport)
    return adapter.listen(null, report => {
      if (localName(report.data) === peer) onReport(report)
    })
  }

  async #find(): Promise<Pick<Report, 'address' | 'addressType' | 'rssi'>> {
    const { peer, findMs, timers } = this.#options
    // no within(): it adds microtasks, which change the order of users of a shared adapter (medium-trace.txt)
    let end = (): void => undefined
    let cancel = (): void => undefined
    try {
      return await new Promise((resolve, reject) => {
        this.#giveUp = reject
        cancel = timers.after(findMs, () =>
          reject(
            new OsError(
              'LINK_DOWN',
              `${peer} is not heard: is it switched on, in reach, and not connected to another?`,
            ),
          ),
        )
        end = this.#listen(({ address, addressType, rssi }) => resolve({ address, addressType, rssi }))
      })
    } finally {
      cancel()
      end()
    }
  }

  async #connect(
    { address, addressType, rssi }: Pick<Report, 'address' | 'addressType' | 'rssi'>,
    events: OpenableEvents,
    user: AdapterUser,
  ): Promise<void> {
    const { adapter, connectMs } = this.#options
    let connection: BleConnection | undefined
    connection = await adapter.connect({
      address,
      addressType,
      rssi,
      stream: NUS,
      timeoutMs: connectMs,
      mtu: MTU,
      onData: chunk => {
        if (this.#user !== user) return
        this.#tally.rx += chunk.length
        this.#handler(chunk)
      },
      onLost: reason => {
        if (this.#connection !== connection || !connection) return
        this.#connection = undefined
        this.#absent = true
        events.lost(reason)
      },
    })
    if (this.#user !== user) {
      connection.disconnect()
      throw closedWhileOpening()
    }
    this.#connection = connection
    this.#peer = address
  }

  async #write(bytes: Uint8Array): Promise<void> {
    const connection = this.#connection
    if (!connection) throw new OsError('LINK_DOWN', `${this.peer} is not connected`)
    const piece = connection.mtu - ATT_HEADER
    const { withResponse, withoutResponse } = connection.writes
    for (let at = 0; at < bytes.length; at += piece) {
      const last = at + piece >= bytes.length
      const confirmed = withResponse && (last || !withoutResponse)
      await this.#inTime(connection, connection.write(bytes.subarray(at, at + piece), confirmed))
    }
    this.#tally.tx += bytes.length
  }

  #inTime(connection: BleConnection, done: Promise<void>): Promise<void> {
    return within(this.#options.timers, WRITE_MS, done, () => {
      this.#tally.errors++
      connection.disconnect()
      throw new OsError('TIMEOUT', `${this.peer} did not confirm a write within ${WRITE_MS / 1000} s`)
    })
  }
}
