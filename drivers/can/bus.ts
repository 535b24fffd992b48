// One CAN interface as a medium sees it: is it there and up, how is the bus, what do the controller's error counters say. State
// changes come as error frames; the kernel's own view is queried on each of them, ten times a second at most, and every few
// seconds beside. What fails: an interface that is missing, down or no CAN (open throws, with what to do), one that goes down
// or away (`lost`), a bus that is off and is not restarted in time (`lost`); a bus with errors is `degraded`.
import { asOsError, OsError } from '../../src/lib/errors'
import type { Timers } from '../../src/lib/timers'
import type { OpenableEvents } from '../../src/links/contracts'
import { AGAIN, READABLE, systemError } from '../../src/native'
import { CanFrames, CanRaw } from '../../src/native/can'
import { type CanLink, type CanState, canLink, linkChanges } from '../../src/native/can-link'
import { complaint, ERROR_CLASSES, startAdvice, stateOf } from './errors'

/** What a bus needs of the kernel; tests hand in their own. */
export interface BusEdges {
  link(name: string): CanLink
  errors(name: string): Pick<CanRaw, 'receive' | 'watch' | 'close'>
  /** tells when any interface changed */
  changes(changed: () => void): { close(): void }
}

export const kernelEdges: BusEdges = {
  link: canLink,
  errors: name => CanRaw.open(name, { filters: [], errorMask: ERROR_CLASSES }),
  changes: linkChanges,
}

/** between two looks at the interface */
const LOOK_MS = 5000
/** the least between two looks that error frames ask for */
const SOON_MS = 100
/** a bus that is off longer than this, and the time of its restart, is lost */
const OFF_MS = 3000

const downText = (name: string): string => `${name} is down: ${startAdvice(name)}`

/** An interface that is not there may come any moment (USB), so it is LINK_DOWN and tried again soon. */
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

/** errors of a socket whose interface went down or away */
const INTERFACE_ERRORS = new Set(['ENETDOWN', 'ENODEV', 'ENXIO', 'EADDRNOTAVAIL', 'EBADF'])

/** Why an error of a socket, minus errno, means that its interface is lost; undefined: it does not. */
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
  /** as error frames tell it, where the driver tells none */
  #seenState: CanState = 'unknown'
  #said = ''
  /** it was missing, down or off when last seen */
  #away = false
  #cancelLook: (() => void) | undefined
  #cancelOff: (() => void) | undefined
  #soon = false

  constructor(name: string, timers: Timers, edges: BusEdges = kernelEdges) {
    this.#name = name
    this.#timers = timers
    this.#edges = edges
  }

  /** `degraded` of the events gets what is wrong with the bus, empty when it is well. Throws LINK_DOWN or E_NO_ADDON. */
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

  /** Looks after an interface that went, or was not there, and tells when it can be opened. Returns what ends that. */
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
    // it may be back already
    const cancel = this.#timers.after(0, () => {
      try {
        changes = this.#edges.changes(look)
        look()
      } catch {
        // nothing tells of a change: the link tries again automatically
      }
    })
    return end
  }

  get #usable(): boolean {
    try {
      const { up, state } = this.#edges.link(this.#name)
      return up && state !== 'bus-off'
    } catch {
      return false // it is not there, or it cannot be queried: opening it says why
    }
  }

  /** Counters of controller and kernel, as last seen; none before the first open, nor for a virtual interface. */
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

  /** A user of this interface lost it: when it is back that is a return. */
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
    // counters move all the time: reported when the state changes only
    const kind = text && state
    if (kind === this.#said) return
    this.#said = kind
    this.#events?.degraded(text)
  }
}
