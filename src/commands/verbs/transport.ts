// transport-status, transporter-toggle, reload-protocol: the media of this machine. In a running gateway a switch
// applies immediately to every link over the medium; without one it is written to Config.json for the next start.
import { OsError } from '../../lib/errors'
import type { TransportView } from '../../links/transport-view'
import type { Paint, Verb } from '../verb'
import { columns } from './status'

function text({ items }: TransportView, paint: Paint): string {
  const rows = items.map(({ name, layer, enabled, driver, default_port, links }) => [
    name,
    layer,
    enabled ? 'on' : 'off',
    driver ? 'yes' : 'no',
    String(default_port ?? '-'),
    links.map(link => `${link.name} ${link.state}${link.reason ? ` (${link.reason})` : ''}`).join(', '),
  ])
  return columns([['medium', 'layer', 'enabled', 'driver', 'default port', 'links'], ...rows], paint)
}

export const transportStatus: Verb<TransportView> = {
  name: 'transport-status',
  summary: 'list media with state, driver and links',
  examples: ['os-node transport-status', 'os-node transport-status --json'],
  where: 'either',
  run: async ({ transport }) => ({ value: { ...transport().view() } }),
  text,
}

const MEDIUM = 'UDP, TCP, QUIC, MQTT, UART, RS485, CAN, LoRa, Bluetooth, IWIP or UIP, in any case'

export const transporterToggle: Verb = {
  name: 'transporter-toggle',
  summary: 'switch a medium on or off',
  description:
    'Applies to dispatch, uplinks and receivers, in a running gateway immediately. Facts that wait for an uplink stay in the log.',
  examples: ['os-node transporter-toggle TCP --enable', 'os-node transporter-toggle --name udp --disable --json'],
  options: {
    name: { type: 'string', value: 'MEDIUM', required: true, help: MEDIUM },
    enable: { type: 'boolean', help: 'switch it on' },
    disable: { type: 'boolean', help: 'switch it off' },
  },
  operands: ['name'],
  where: 'either',
  changes: true,
  async run({ transport }, { name, enable = false, disable = false }) {
    if (enable === disable) {
      throw new OsError('USAGE', 'give either --enable or --disable', { hint: 'see os-node transporter-toggle --help' })
    }
    return { value: await transport().toggle(String(name), enable === true) }
  },
}

export const reloadProtocol: Verb = {
  name: 'reload-protocol',
  summary: 'reload Config.json and restart one medium',
  examples: ['os-node reload-protocol UDP', 'os-node reload-protocol --medium mqtt --json'],
  options: { medium: { type: 'string', value: 'MEDIUM', required: true, help: MEDIUM } },
  operands: ['medium'],
  where: 'either',
  async run({ transport }, options) {
    const { name, reloaded } = await transport().reload(String(options.medium))
    if (reloaded) return { value: { medium: name, reloaded } }
    const hint = `os-node transport-status shows why; os-node transporter-toggle ${name} --enable switches it on`
    return { value: { medium: name, reloaded, error: `No available driver: ${name}`, hint }, exitCode: 1 }
  },
}
