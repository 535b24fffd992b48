// Source types modbus_rtu and modbus_tcp: registers of one slave as readings. Sources that name the same port or server
// share it and take turns (kit/shared.ts); bus.ts, rtu.ts, tcp.ts and registers.ts describe the errors.
import type { GenericSchema } from 'valibot'
import type { DriverContext, Source, SourceDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/driver-options'
import { HostResolver } from '../../src/links/resolve'
import { setRs485 } from '../../src/native/rs485'
import { PolledSource } from '../kit/polled-source'
import { afterReading, characterMs, type OpenPort, type SerialContext, serialLine, serialSettings } from '../serial'
import { ModbusBus } from './bus'
import {
  type RtuSourceOptions,
  rtuSchema,
  type SharedOptions,
  type TcpSourceOptions,
  tcpSchema,
} from './modbus-options'
import { channelsOf, RegisterProbe } from './registers'
import { RtuTransport } from './rtu'
import { Membership } from './shared'
import { TcpTransport } from './tcp'

const TCP_TIMEOUT_MS = 1000

/** A source of one slave on a bus. Throws CONFIG_INVALID. */
export function slaveSource(
  type: string,
  name: string,
  unit: number,
  options: SharedOptions,
  timeoutMs: number,
  bus: Membership,
): Source {
  const probe = new RegisterProbe(name, unit, options, options.timeout_ms ?? timeoutMs, bus)
  return new PolledSource(name, { type, intervalMs: options.interval_ms, channels: channelsOf(options) }, probe)
}

const RTU_TIMEOUT_MS = 500

/** One bus for all sources of a port. */
function rtuBus(name: string, options: RtuSourceOptions, context: SerialContext): Membership {
  const { port, pause_ms, direction, rts_on_send } = options
  const serial = serialSettings(options)
  return new Membership(`modbus ${port}`, { serial, pause_ms, direction, rts_on_send }, () => {
    const byKernel = async (opened: OpenPort): Promise<void> => {
      await setRs485(opened.bus, { rtsOnSend: rts_on_send })
    }
    const line = serialLine(name, serial, { ...context, ...(direction === 'kernel' && { prepare: byKernel }) })
    const transport = new RtuTransport(line, {
      characterMs: characterMs(serial),
      baudrate: serial.baudrate,
      clock: context.clock,
      timers: afterReading(context.timers),
      exclusive: run => line.exclusive(run),
      minSilenceMs: pause_ms,
    })
    return new ModbusBus(transport, context.clock)
  })
}

export const modbusRtu: SourceDriver<RtuSourceOptions> = {
  type: 'modbus_rtu',
  schema: rtuSchema as GenericSchema<unknown, RtuSourceOptions>,
  create(name, raw, context) {
    const options = checkOptions(this.schema!, raw, name)
    return slaveSource(this.type, name, options.slave, options, RTU_TIMEOUT_MS, rtuBus(name, options, context))
  },
}

let resolver: HostResolver | undefined

/** One connection for all sources of a server: many devices accept only one or two. */
function tcpBus({ host, port, connect_timeout_ms }: TcpSourceOptions, { clock, logger }: DriverContext): Membership {
  const settings = { host, port, connectTimeoutMs: connect_timeout_ms }
  return new Membership(`modbus ${host}:${port}`, settings, () => {
    resolver ??= new HostResolver({ clock, logger })
    return new ModbusBus(new TcpTransport({ ...settings, resolver }), clock)
  })
}

export const modbusTcp: SourceDriver<TcpSourceOptions> = {
  type: 'modbus_tcp',
  schema: tcpSchema as GenericSchema<unknown, TcpSourceOptions>,
  create(name, raw, context) {
    const options = checkOptions(this.schema!, raw, name)
    return slaveSource(this.type, name, options.unit_id, options, TCP_TIMEOUT_MS, tcpBus(options, context))
  },
}
