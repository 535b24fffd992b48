// Source types modbus_rtu and modbus_tcp: registers of one slave as readings. Sources that name the same port or server share
// it and take turns (shared.ts); what fails is told in bus.ts, rtu.ts, tcp.ts and registers.ts.
import type { GenericSchema } from 'valibot'
import type { DriverContext, Source, SourceDriver } from '../../src/links/contracts'
import { checkOptions } from '../../src/links/options'
import { HostResolver } from '../../src/links/resolve'
import { PolledSource } from '../kit/source'
import { Bus } from './bus'
import { type SharedOptions, type TcpSourceOptions, tcpSchema } from './options'
import { channelsOf, RegisterProbe } from './registers'
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

let resolver: HostResolver | undefined

/** One connection for all sources of a server: many devices take only one or two. */
function tcpBus({ host, port, connect_timeout_ms }: TcpSourceOptions, { clock, logger }: DriverContext): Membership {
  const settings = { host, port, connectTimeoutMs: connect_timeout_ms }
  return new Membership(`modbus ${host}:${port}`, settings, () => {
    resolver ??= new HostResolver({ clock, logger })
    return new Bus(new TcpTransport({ ...settings, resolver }), clock)
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
