// A running gateway as plugins see it (GatewayAccess): what they may read, hear and hand in, and nothing that stops it.
import type { Gateway } from '../gateway/gateway'
import type { GatewayAccess } from './contract'

export const accessOf = (gateway: Gateway): GatewayAccess => ({
  status: () => gateway.status(),
  submit: (readings, options) => gateway.submit(readings, options),
  onFact: listener => gateway.events.onFact(listener),
  onPacket: listener => gateway.events.onPacket(listener),
  onLink: listener => gateway.events.onLink(listener),
})
