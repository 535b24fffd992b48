// The MQTT medium (specification, "Transporter media"; decision 0021): its declaration. Versions 3.1.1 and 5, QoS 0 to 2;
// topics.ts makes the topics, connection.ts is one connection, and each direction has its own file.
import { randomBytes } from 'node:crypto'
import { OsError } from '../../lib/errors'
import type { DriverContext, Medium, MediumDriver, NodeIdentity } from '../../links/contracts'
import { checkOptions } from '../../links/driver-options'
import { HostResolver } from '../../links/resolve'
import { type BrokerParts, PORT, TLS_PORT } from './broker'
import { MqttListener } from './listener'
import { type MqttOptions, mqttOptions } from './mqtt-options'
import { MqttSender } from './sender'

export { MqttListener } from './listener'
export { MqttSender } from './sender'

/** A node without an identity: a different one at each start. */
const noop = (): NodeIdentity => ({
  aid: null,
  installId: randomBytes(6).toString('hex'),
  onAssigned: () => () => undefined,
})

/** A medium that sends (`mode: "send"`, the default) or listens. Throws CONFIG_INVALID, also without a host. */
export function createMqtt(
  name: string,
  options: unknown,
  { clock, logger, trueNow, identity = noop(), resolver }: DriverContext & { resolver?: HostResolver },
): MqttSender | MqttListener {
  const checked = checkOptions(mqttOptions, options, name)
  const { host, port = checked.tls ? TLS_PORT : PORT, mode } = checked
  if (!host) {
    const hint = `give ${name} the host of an MQTT broker`
    throw new OsError('CONFIG_INVALID', 'no host configured', { hint, details: { link: name, keys: ['host'] } })
  }
  const parts: BrokerParts = {
    name,
    host,
    port,
    options: checked,
    identity,
    tls: { clock, logger, ...(trueNow && { trueNow }) },
    resolver: resolver ?? new HostResolver({ clock, logger }),
  }
  return mode === 'listen' ? new MqttListener(parts, logger) : new MqttSender(parts)
}

export const mqttDriver: MediumDriver<MqttOptions> = {
  medium: 'MQTT',
  schema: mqttOptions,
  create: (name, options, context): Medium => createMqtt(name, options, context),
}
