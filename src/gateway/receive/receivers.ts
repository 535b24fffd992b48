// Opens a listening medium for every configured receiver and hands its packets to the receiving wall. One that cannot be
// made is a link that is down with its reason.
import type { ReceiverConfig } from '../../config'
import { asOsError } from '../../lib/errors'
import { MissingLink } from '../../links/missing'
import { mediumInfo } from '../../links/registry'
import type { LinkParts } from '../parts'
import type { Receive } from './receive'

export async function addReceivers(
  { clock, logger, registry, supervisor }: LinkParts,
  list: readonly ReceiverConfig[],
  receive: Receive,
): Promise<void> {
  for (const { name, medium, host, port, ...rest } of list) {
    try {
      const driver = await registry.mediumDriver(medium)
      const options = {
        ...rest,
        mode: 'listen',
        listen_host: host ?? '0.0.0.0',
        port: port ?? mediumInfo(medium)?.default_port,
      }
      const thing = driver.create(name, options, { clock, logger: logger.child(name) })
      thing.onPacket((packet, origin) => receive.packet(packet, origin))
      supervisor.add(thing)
    } catch (error) {
      supervisor.add(new MissingLink(name, asOsError(error)))
    }
  }
}
