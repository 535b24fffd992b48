// The file of the configuration of each machine, as the plan and the edits by the user make it.
import { BROKER } from './broker'
import type { Medium, Plan } from './plan'

/** A change by the user in the file of the configuration. */
export interface Edit {
  readonly uplink?: Record<string, unknown>
  readonly intervalMs?: number
  /** the uplinks in another order */
  readonly reversed?: boolean
  /** disabled for a while */
  readonly without?: 'uplinks' | 'sources' | 'receivers' | undefined
}

export const PORT = 8080
const TCP_PORT = 8081
export const addressOf = (machine: number): string => `10.0.0.${machine + 1}`

/** The media on which a machine receives; none: nothing sends to it. */
export const receivesOn = ({ ways }: Plan, machine: number): readonly Medium[] => [
  ...new Set(ways.flatMap((way, from) => (from > 0 && way.to === machine ? way.media : []))),
]

/** The broker keeps the packets for a receiver of a machine under this name. */
export const clientOf = (machine: number): string => (machine === 0 ? 'upstream' : `relay${machine}`)

/** The port in a machine of the serial line from a gateway: its own is the first. */
export const portOf = (machine: number, from: number): string => `/dev/ttyUSB${machine === from ? 0 : from}`

/** The start of the topics of what is sent to a machine. */
export const topicsOf = (machine: number): string => (machine === 0 ? 'os' : clientOf(machine))

function uplinksOf(plan: Plan, machine: number, edit: Edit): Record<string, unknown>[] {
  const { to, media } = plan.ways[machine]!
  const place = (medium: Medium): Record<string, unknown> => {
    if (medium === 'MQTT') return brokerOf(plan, to)
    if (medium === 'UART') return lineOf(plan, machine, machine)
    return { medium, host: addressOf(to), port: medium === 'TCP' ? TCP_PORT : PORT }
  }
  const uplinks = media.map((medium, k) => ({
    name: k === 0 ? 'main' : `other${k}`,
    ...place(medium),
    ...plan.config.uplink,
    ...edit.uplink,
    // one server behind all of them
    ...(media.length > 1 && { server: 'up' }),
  }))
  return edit.reversed ? uplinks.reverse() : uplinks
}

/** Of a link by the serial line from a gateway. */
const lineOf = ({ line }: Plan, machine: number, from: number): Record<string, unknown> => ({
  medium: 'UART',
  port: portOf(machine, from),
  ...line,
})

/** Of a link by the broker: what is sent to a relay has topics of its own. */
function brokerOf({ mqtt }: Plan, to: number): Record<string, unknown> {
  const topics = topicsOf(to)
  return {
    ...{ medium: 'MQTT', host: BROKER, port: 1883, ...mqtt },
    ...(to > 0 && { topics: { up: `${topics}/<aid>/up`, down: `${topics}/<aid>/down`, state: '' } }),
  }
}

function receiversOf(plan: Plan, machine: number): Record<string, unknown>[] {
  const of = (medium: Medium): Record<string, unknown> => {
    if (medium === 'MQTT') return { name: 'mqtt', ...brokerOf(plan, machine), client_id: clientOf(machine) }
    return medium === 'TCP' ? { name: 'tcp', medium, port: TCP_PORT } : { name: 'udp', medium, port: PORT }
  }
  const lines = plan.ways.flatMap(({ to, media }, from) =>
    to === machine && media.includes('UART') ? [{ name: `uart${from}`, ...lineOf(plan, machine, from) }] : [],
  )
  // `serve` has a receiver of UDP without any configuration
  return receivesOn(plan, machine)
    .filter(medium => medium !== 'UART' && (machine > 0 || medium !== 'UDP'))
    .map(of)
    .concat(lines)
}

/** `id`: as the upstream assigned it, if the gateway has one. */
export function configOf(plan: Plan, machine: number, edit: Edit = {}, id?: number): Record<string, unknown> {
  const some = <T>(name: Edit['without'], list: T[]): T[] => (edit.without === name ? [] : list)
  const receivers = some('receivers', receiversOf(plan, machine))
  const common = {
    storage: { sql: { enabled: machine === 0 && plan.windowPackets > 0 } },
    engine_settings: plan.config.engine,
    // plaintext waiting in a broker is refused once there is a session over another uplink
    security_settings: {
      require_secure: plan.ways.some(({ media }) => media.length > 1 && media.includes('MQTT')),
      ...(plan.idPool > 0 && { id_pool: { size: plan.idPool } }),
    },
    RESOURCES: {
      transport_status: { udp: edit.without !== 'uplinks', tcp: edit.without !== 'uplinks' },
      application_status: { mqtt: edit.without !== 'uplinks' },
      ...(plan.line && { physical_status: { uart: edit.without !== 'uplinks' } }),
    },
  }
  const guard = { enabled: false }
  if (machine === 0)
    return { ...common, device_id: 'UP', gateway: { log: plan.upstream, sources: [], receivers, guard } }
  return {
    ...common,
    device_id: `GW${machine}`,
    ...(plan.idPool === 0 ? { assigned_id: 100 + machine } : id !== undefined && { assigned_id: id }),
    gateway: {
      log: plan.config.gateway,
      guard,
      sources: some('sources', [{ name: 'counter', type: 'counter', interval_ms: edit.intervalMs ?? plan.intervalMs }]),
      ...(receivers.length > 0 && { receivers }),
      uplinks: uplinksOf(plan, machine, edit),
    },
  }
}
