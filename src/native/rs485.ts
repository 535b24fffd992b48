// Direction switching of an RS485 transceiver by the UART's kernel driver, if it supports it. Otherwise UNSUPPORTED,
// and nothing is changed. The settings belong to the open port, so they are set on the descriptor of the port's user.
import { OsError } from '../lib/errors'
import { DEFAULT_DEADLINE_MS, type NativeThread } from './native-thread'

/** Times in ms. */
interface Rs485 {
  enabled: boolean
  /** level of RTS while sending; after it, the other level */
  rtsOnSend: boolean
  rtsAfterSend: boolean
  /** the port receives what it sends */
  rxDuringTx: boolean
  delayBeforeMs: number
  delayAfterMs: number
}

const HINT = 'this port cannot switch the direction: use an automatic transceiver, or another port'

const [ENABLED, RTS_ON_SEND, RTS_AFTER_SEND, RX_DURING_TX] = [1, 2, 4, 16] as const

/**
 * Turns the kernel's RS485 mode of a port on or off and resolves with the driver's actual settings. `port` is
 * the bus of an open port. Throws UNSUPPORTED if the driver has no such mode, or accepted the call with other settings:
 * the mode is off, RTS has the other level, or a pause is shorter than requested.
 */
export async function setRs485(port: NativeThread, wanted: Partial<Rs485>): Promise<Rs485> {
  const { enabled = true, rtsOnSend = true, rtsAfterSend = !rtsOnSend, rxDuringTx = false } = wanted
  const flags =
    (enabled ? ENABLED : 0) |
    (rtsOnSend ? RTS_ON_SEND : 0) |
    (rtsAfterSend ? RTS_AFTER_SEND : 0) |
    (rxDuringTx ? RX_DURING_TX : 0)
  const { delayBeforeMs = 0, delayAfterMs = 0 } = wanted
  await port.call(
    (addon, bus) => addon.rs485Set(bus, flags, delayBeforeMs, delayAfterMs),
    'TIOCSRS485',
    DEFAULT_DEADLINE_MS,
    null,
    refused,
  )
  const made = await getRs485(port)
  if (!enabled) return made
  if (!made.enabled) throw unsupported('it leaves the mode off')
  if (made.rtsOnSend !== rtsOnSend)
    throw unsupported(`RTS is ${made.rtsOnSend ? 'high' : 'low'} while it sends, whatever is requested`)
  for (const [where, requested, got] of [
    ['before', delayBeforeMs, made.delayBeforeMs],
    ['after', delayAfterMs, made.delayAfterMs],
  ] as const)
    if (got < requested) throw unsupported(`it waits ${got} ms ${where} sending, not ${requested}`)
  return made
}

/** The kernel's RS485 mode of a port; throws like setRs485. */
export async function getRs485(port: NativeThread): Promise<Rs485> {
  const words = new Uint32Array(3)
  const answer = new Uint8Array(words.buffer)
  await port.call((addon, bus) => addon.rs485Get(bus), 'TIOCGRS485', DEFAULT_DEADLINE_MS, answer, refused)
  const [flags, delayBeforeMs, delayAfterMs] = words as unknown as [number, number, number]
  return {
    enabled: (flags & ENABLED) !== 0,
    rtsOnSend: (flags & RTS_ON_SEND) !== 0,
    rtsAfterSend: (flags & RTS_AFTER_SEND) !== 0,
    rxDuringTx: (flags & RX_DURING_TX) !== 0,
    delayBeforeMs,
    delayAfterMs,
  }
}

const unsupported = (message: string): OsError => new OsError('UNSUPPORTED', message, { hint: HINT })

/** Drivers without the mode return various errors. */
function refused(error: OsError): OsError {
  const errno = error.details['errno']
  if (errno !== 'ENOTTY' && errno !== 'EINVAL' && errno !== 'ENOSYS' && errno !== 'EOPNOTSUPP') return error
  return new OsError('UNSUPPORTED', error.message, { cause: error.cause, details: error.details, hint: HINT })
}
