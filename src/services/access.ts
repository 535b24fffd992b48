// A running gateway as plugins see it (GatewayAccess): what they may read, hear and hand in, and nothing that stops it.
import type { Gateway } from '../gateway/gateway'
import type { FactEvent, GatewayAccess } from './contract'

/** What tells of facts as they enter the log. */
export interface FactSource {
  onFact(listener: (event: FactEvent) => void): () => void
}

export const accessOf = (gateway: Gateway, events: FactSource): GatewayAccess => ({
  status: () => gateway.status(),
  submit: (readings, options) => gateway.submit(readings, options),
  onFact: listener => events.onFact(listener),
  onPacket: listener => {
    const { lookers } = gateway.receive
    const looker: Parameters<typeof lookers.add>[0] = (packet, { medium, address }) =>
      listener({ packet, medium, address })
    lookers.add(looker)
    return () => void lookers.delete(looker)
  },
  onLink: listener => gateway.supervisor.onChange((name, state, before) => listener({ name, state, before })),
})
