// One CAN interface as a medium sees it: whether it exists and is up, the state of the bus, the controller's error
// counters. State changes arrive as error frames; each of them triggers a query of the kernel's view, at most ten per
// second, and a timer queries it every few seconds. Errors: an interface that is missing, down or not CAN (open throws,
// with what to do); one that goes down or is removed (`lost`); a bus-off that is not restarted in time (`lost`). A bus
// with errors is `degraded`.
import { asOsError, OsError } from '../../src/lib/errors'
import type { Timers } from '../../src/lib/timers'
import type { OpenableEvents } from '../../src/links/contracts'
import { AGAIN, READABLE, systemError } from '../../src/native'
import { CanFrames, CanRaw } from '../../src/native/can'
import { type CanLink, type CanState, canLink, linkChanges } from '../../src/native/can-link'
import { complaint, ERROR_CLASSES, startAdvice, stateOf } from './errors'

/** The kernel functions a bus uses; tests pass their own. */
export interface BusEdges {
  link(name: string): CanLink
  errors(name: string): Pick<CanRaw, 'receive' | 'watch' | 'close'>
  /** calls `changed` when any interface changes */
  changes(changed: () => void): { close(): void }
}

export const kernelEdges: BusEdges = {
  link: canLink,
  errors: name => CanRaw.open(name, { filters: [], errorMask: ERROR_CLASSES }),
  changes: linkChanges,
}

/** interval of checks of the interface */
const LOOK_MS = 5000
/** minimum interval of checks that error frames trigger */
const SOON_MS = 100
/** a bus that is off for longer than this plus its restart time is lost */
const OFF_MS = 3000

const downText = (name: string): string => `${name} is down: ${startAdvice(name)}`

/** A missing interface may be plugged in at any time (USB), so the error is LINK_DOWN and is retried soon. */
function look(name: string, edges: BusEdges): CanLink {
  try {
    return edges.link(name)
  } catch (cause) {
    const error = asOsError(cause)
    if (error.code !== 'NOT_FOUND') throw error
    const hint = 'plug the adapter in, or enable its overlay (docs/wiring.md); ip link shows what is there'
    throw new OsError('LINK_DOWN', `there is no interface ${name}: ${hint}`, { cause, hint })
  }
}

/** errors of a socket whose interface is down or removed */
const INTERFACE_ERRORS = new Set(['ENETDOWN', 'ENODEV', 'ENXIO', 'EADDRNOTAVAIL', 'EBADF'])

/** Why a socket error (minus errno) means that the interface is lost; undefined: it does not. */
export function lossOf(name: string, result: number, edges: BusEdges = kernelEdges): string | undefined {
  const { code } = systemError(result, 'receive')
  if (!INTERFACE_ERRORS.has(code!)) return undefined
  try {
    return look(name, edges).up ? `${name} was down for a moment` : downText(name)
  } catch (error) {
    return asOsError(error).message
  }
}

export class CanBus {
  /** error frames heard so far */
  errorFrames = 0
  readonly #name: string
  readonly #timers: Timers
  readonly #edges: BusEdges
  #socket: ReturnType<BusEdges['errors']> | undefined
  #events: OpenableEvents | undefined
  #last: CanLink | undefined
  /** state from error frames, if the driver reports none */
  #seenState: CanState = 'unknown'
  #said = ''
  /** the interface was missing, down or off at the last check */
  #away = false
  #cancelLook: (() => void) | undefined
  #cancelOff: (() => void) | undefined
  #soon = false

  constructor(name: string, timers: Timers, edges: BusEdges = kernelEdges) {
    this.#name = name
    this.#timers = timers
    this.#edges = edges
  }

  /** `degraded` of the events gets what is wrong with the bus, '' when it works. Throws LINK_DOWN or E_NO_ADDON. */
  open(events: OpenableEvents, fd: boolean): void {
    this.close()
    this.#away = !this.#usable
    const link = this.#look()
    this.#refuse(link, fd)
    this.#seenState = 'unknown'
    this.#said = ''
    const socket = this.#edges.errors(this.#name)
    this.#socket = socket
    this.#events = events
    const frames = new CanFrames(16)
    socket.watch(READABLE, () => this.#heard(frames))
    this.#judge(link)
    this.#later(LOOK_MS)
  }

  close(): void {
    this.#cancelLook?.()
    this.#cancelOff?.()
    this.#cancelLook = this.#cancelOff = undefined
    this.#soon = false
    this.#events = undefined
    this.#socket?.close()
    this.#socket = undefined
  }

  /** Watches an interface that is missing or down, and calls `back` when it can be opened. Returns the function that ends it. */
  onReturn(back: () => void): () => void {
    let changes: { close(): void } | undefined
    const end = (): void => {
      cancel()
      changes?.close()
    }
    const look = (): void => {
      if (!this.#usable) this.#away = true
      else if (this.#away) {
        this.#away = false
        end()
        back()
      }
    }
    // it may have returned already
    const cancel = this.#timers.after(0, () => {
      try {
        changes = this.#edges.changes(look)
        look()
      } catch {
        // no change events here: the link retries by timer
      }
    })
    return end
  }

  get #usable(): boolean {
    try {
      const { up, state } = this.#edges.link(this.#name)
      return up && state !== 'bus-off'
    } catch {
      return false // missing, or the query failed: opening reports why
    }
  }

  /** Counters of controller and kernel at the last check; none before the first open, or for a virtual interface. */
  get detail(): Record<string, number> {
    const link = this.#last
    const error_frames = this.errorFrames
    if (link?.kind !== 'can') return error_frames > 0 ? { error_frames } : {}
    const { bitrate, data_bitrate, tx_errors, rx_errors, bus_errors, passives, bus_offs, restarts } = link
    const rates: Record<string, number> = data_bitrate > 0 ? { bitrate, data_bitrate } : { bitrate }
    return { ...rates, tx_errors, rx_errors, bus_errors, passives, bus_offs, restarts, error_frames }
  }

  #look(): CanLink {
    this.#last = look(this.#name, this.#edges)
    return this.#last
  }

  #refuse(link: CanLink, fd: boolean): void {
    const name = this.#name
    const hint = startAdvice(name)
    if (link.kind === 'other') throw new OsError('CONFIG_INVALID', `${name} is no CAN interface`)
    if (!link.up) throw new OsError('LINK_DOWN', downText(name), { hint })
    if (fd && !link.fd) {
      const way = `set DBITRATE in /etc/os-node/${name}.conf, or leave fd out`
      throw new OsError('LINK_DOWN', `${name} carries no FD frames: ${way}`, { hint: way })
    }
    if (link.state === 'bus-off') throw new OsError('LINK_DOWN', complaint(name, 'bus-off', link))
  }

  #heard(frames: CanFrames): void {
    const got = this.#socket?.receive(frames) ?? AGAIN
    if (got < 0) {
      const loss = got === AGAIN ? undefined : lossOf(this.#name, got, this.#edges)
      if (loss !== undefined) this.#lost(loss)
      return
    }
    for (let k = 0; k < got; k++) {
      this.errorFrames++
      this.#seenState = stateOf(frames.id(k), frames.data(k)) ?? this.#seenState
    }
    if (this.#soon) return
    this.#soon = true
    this.#later(SOON_MS)
  }

  #later(ms: number): void {
    this.#cancelLook?.()
    this.#cancelLook = this.#timers.after(ms, () => {
      this.#soon = false
      try {
        const link = this.#look()
        if (link.up) this.#judge(link)
        else this.#lost(downText(this.#name))
        if (this.#events) this.#later(LOOK_MS)
      } catch (error) {
        this.#lost(asOsError(error).message)
      }
    })
  }

  #lost(reason: string): void {
    this.missed()
    this.#events?.lost(reason)
  }

  /** A user of this interface lost it: its next appearance counts as a return. */
  missed(): void {
    this.#away = true
  }

  #judge(link: CanLink): void {
    const state = link.state === 'unknown' ? this.#seenState : link.state
    const text = complaint(this.#name, state, link)
    if (state !== 'bus-off') {
      this.#cancelOff?.()
      this.#cancelOff = undefined
    } else if (link.kind === 'can' && !this.#cancelOff)
      this.#cancelOff = this.#timers.after(link.restart_ms > 0 ? link.restart_ms + OFF_MS : 0, () => this.#lost(text))
    // the counters in the text change constantly: report only changes of state
    const kind = text && state
    if (kind === this.#said) return
    this.#said = kind
    this.#events?.degraded(text)
  }
}
