// The UART medium (specification, "Transporter media"): packets in frames on a serial port (decision 0029). An uplink, a receiver
// and dispatch on the same port share it. Errors: see drivers/serial.
import { OsError } from '../../src/lib/errors'
import type { DriverContext, Medium, MediumDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/driver-options'
import { LineMedium } from '../../src/links/line/medium'
import { sharedMedium } from '../kit/shared'
import { afterReading, lineMs, type SerialContext, serialLine, serialSettings } from '../serial'
import { type UartOptions, uartOptions } from './uart-options'

/** twice the 16 ms that USB adapters buffer characters, plus the pauses of a busy sender */
const MIN_GAP_MS = 40

/** Silence that ends a packet: 20 characters, or more for adapters and busy loops. */
const gapOf = (options: UartOptions): number => options.gap_ms ?? Math.max(MIN_GAP_MS, Math.ceil(lineMs(options, 20)))

/** A medium on a serial port. Throws CONFIG_INVALID. */
function createUart(name: string, raw: unknown, context: DriverContext & SerialContext): Medium {
  const options = checkOptions(uartOptions, raw, name)
  const settings = serialSettings(options)
  if (settings.port === '')
    throw new OsError('CONFIG_INVALID', `options of ${name}: port is missing`, {
      hint: 'set RESOURCES.physical_config.uart.port, best to a name in /dev/serial/by-id',
      details: { link: name, keys: ['port'] },
    })
  const { framing, max_packet: maxPacket, mode } = options
  const { clock, logger } = context
  return sharedMedium('UART', {
    name,
    mode,
    key: settings.port,
    settings: { ...settings, framing, maxPacket, gap: gapOf(options) },
    logger,
    make: () =>
      new LineMedium(serialLine(name, settings, context), {
        medium: 'UART',
        framing,
        maxPacket,
        clock,
        timers: afterReading(context.timers),
        logger,
        gapMs: gapOf(options),
        address: settings.port,
      }),
  })
}

export const uartDriver: MediumDriver<UartOptions> = {
  medium: 'UART',
  schema: uartOptions,
  create: createUart,
}
