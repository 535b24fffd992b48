// The RS485 medium (specification, "Transporter media"): packets in frames with LRC (decision 0029) on two wires, between two
// ends, or as master or slave of a multi-drop bus. The kernel or the adapter switches the direction of the transceiver,
// never this program, which would be too slow (R17).
//
// Errors: a port whose driver cannot switch the direction, or no addon to configure it: refused, unless the adapter
// switches automatically (`direction: "auto_hardware"`); other errors as in drivers/serial.
import { asOsError, OsError } from '../../src/lib/errors'
import type { DriverContext, Medium, MediumDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/driver-options'
import { LineMedium } from '../../src/links/line/medium'
import { setRs485 } from '../../src/native/rs485'
import { COMMAND } from '../../src/wire/commands'
import { sharedMedium } from '../kit/shared'
import {
  afterReading,
  lineMs,
  type OpenPort,
  type SerialContext,
  type SerialLine,
  serialLine,
  serialSettings,
} from '../serial'
import type { TurnParts } from './bus'
import { HalfDuplexLine } from './halfduplex'
import { MasterMedium } from './master'
import { type Rs485Options, rs485Options } from './rs485-options'
import { SlaveMedium } from './slave'

/** twice the 16 ms that USB adapters buffer characters, plus the pauses of a busy sender */
const MIN_GAP_MS = 40
/** 02, LRC and 03 around a packet */
const FRAME = 3

/** Makes the UART's driver switch the direction. Throws an error that says what to do. */
async function kernelDirection(options: Rs485Options, port: OpenPort): Promise<void> {
  try {
    await setRs485(port.bus, {
      enabled: true,
      rtsOnSend: options.rts_on_send,
      rtsAfterSend: !options.rts_on_send,
      delayBeforeMs: options.delay_before_ms,
      delayAfterMs: options.delay_after_ms,
    })
  } catch (cause) {
    const { code, message } = asOsError(cause)
    if (code === 'TIMEOUT') throw cause
    throw new OsError('UNSUPPORTED', `${port.path} does not switch the direction: its driver cannot (${message})`, {
      cause,
      hint: 'set direction to "auto_hardware" for an automatic adapter, else use another port',
    })
  }
}

function missing(name: string, key: string, hint: string): OsError {
  return new OsError('CONFIG_INVALID', `options of ${name}: ${key} is missing`, {
    hint,
    details: { link: name, keys: [key] },
  })
}

/** A medium on a bus. Throws CONFIG_INVALID. */
export function createRs485(name: string, raw: unknown, context: DriverContext & SerialContext): Medium {
  const options = checkOptions(rs485Options, raw, name)
  const { mode, role, port } = options
  if (port === '')
    throw missing(name, 'port', 'set RESOURCES.physical_config.rs485.port, best to a name in /dev/serial/by-id')
  if (role === 'master' && options.slaves.length === 0)
    throw missing(name, 'slaves', 'list the AIDs that the master polls')
  const { mode: _, ...settings } = options
  return sharedMedium('RS485', {
    name,
    mode,
    key: port,
    settings,
    logger: context.logger,
    make: () => makeBus(name, options, context),
  })
}

function makeBus(name: string, options: Rs485Options, context: DriverContext & SerialContext): Medium {
  const { clock, logger, identity } = context
  const { port, role, max_packet: maxPacket } = options
  const settings = serialSettings(options)
  const timers = afterReading(context.timers)
  const gapMs = options.gap_ms ?? Math.max(MIN_GAP_MS, Math.ceil(lineMs(settings, 20)))
  const line: SerialLine = serialLine(name, settings, {
    ...context,
    prepare: async opened => {
      if (options.direction === 'kernel') await kernelDirection(options, opened)
      await context.prepare?.(opened)
    },
  })
  let heard = (): void => undefined
  const duplex = new HalfDuplexLine(line, {
    clock,
    timers,
    gapMs,
    turnaroundMs: options.turnaround_ms ?? Math.max(5, Math.ceil(lineMs(settings, 3.5))),
    receiving: () => framed.deframer.waiting,
    // two equal ends may start simultaneously, so they add a random delay; on a bus with turns only one may send
    ...(role === 'point_to_point' && { jitter: Math.random }),
    heard: () => heard(),
  })
  const framed = new LineMedium(duplex, {
    medium: 'RS485',
    framing: 'rs485',
    maxPacket,
    clock,
    timers,
    logger,
    gapMs,
    address: port,
    detail: () => duplex.tally,
  })
  if (role === 'point_to_point') return framed
  const parts: TurnParts = {
    inner: framed,
    silence: () => duplex.silence(),
    clock,
    timers,
    logger,
    random: Math.random,
    frameSize: packet => packet.length + FRAME,
    lineMs: bytes => lineMs(settings, bytes),
  }
  if (role === 'slave') {
    const slave = new SlaveMedium(
      {
        name,
        bus: port,
        address: () => options.address || (identity?.aid ?? null),
        turnTimeoutMs: options.turn_timeout_ms,
        expectEnd: seq => framed.expectAnswer(COMMAND.PONG, seq),
      },
      parts,
    )
    heard = () => slave.heard()
    return slave
  }
  const master = new MasterMedium(
    {
      name,
      bus: port,
      slaves: options.slaves,
      turnTimeoutMs: options.turn_timeout_ms,
      turnBytes: options.turn_bytes,
      pollIntervalMs: options.poll_interval_ms,
      exclusive: run => line.exclusive(run),
    },
    parts,
  )
  heard = () => master.heard()
  return master
}

export const rs485Driver: MediumDriver<Rs485Options> = {
  medium: 'RS485',
  schema: rs485Options,
  create: createRs485,
}
