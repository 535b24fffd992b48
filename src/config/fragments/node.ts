// Identity, server address and the media a node may use (specification, "Configuration keys").
import * as v from 'valibot'
import { atStart, choice, flag, int, map, maybe, optionalText, port, section, text, wireName } from '../fields'

const options = (entries: v.ObjectEntries = {}) => v.optional(v.looseObject(entries), {})

/** Settings of one network medium; the medium itself adds its other options. */
const network = (host: string, standardPort: number) =>
  options({
    host: text(host, 'address of the peer; empty: Client_Core.server_host'),
    port: port(standardPort, 'port of the peer; 0: Client_Core.server_port'),
  })

const serial = (baudrate: number) =>
  options({
    port: text('', 'name of the serial port, for example /dev/serial/by-id/…'),
    baudrate: int(baudrate, 'bits per second', { min: 50, max: 12_000_000 }),
  })

const enabled = (standard: boolean) => flag(standard, 'whether this medium may be used')
const anyOptions = v.looseObject({})

export const nodeEntries = {
  assigned_id: int(4294967295, 'device id on the wire (AID); 0 and 4294967295 mean unassigned', { max: 4294967295 }),
  device_id: wireName('name of this device; empty: made from the host name'),
  hardware_id: optionalText('hashes that identify the hardware this identity belongs to; written at a start'),
  Node_Setting: section({
    default_medium: text('UDP', 'medium used by dispatch when none is named'),
    device_role: choice(
      ['duplex', 'tx_only', 'rx_only'],
      'duplex',
      'rx_only: sends no data packets and no requests, only answers; tx_only: answers no requests',
      atStart,
    ),
  }),
  Client_Core: section({
    server_host: text('127.0.0.1', 'server for ids and time'),
    server_port: port(8080, 'UDP port of that server'),
  }),
}

export const resourceEntries = {
  application_status: map({ mqtt: enabled(false) }, v.boolean(), 'application media that are switched on'),
  transport_status: map(
    { udp: enabled(true), tcp: enabled(false), quic: enabled(false), iwip: enabled(false), uip: enabled(false) },
    v.boolean(),
    'network media that are switched on',
  ),
  physical_status: map(
    {
      uart: enabled(false),
      rs485: enabled(false),
      can: enabled(false),
      lora: enabled(false),
      bluetooth: enabled(false),
    },
    v.boolean(),
    'buses and radios that are switched on',
  ),
  application_config: map(
    {
      mqtt: options({
        host: text('', 'broker; there is no default'),
        port: port(1883, 'port of the broker'),
      }),
    },
    anyOptions,
    'settings of each application medium',
  ),
  transport_config: map(
    {
      udp: network('', 0),
      tcp: network('', 8888),
      quic: network('', 4433),
      iwip: options(),
      uip: options(),
    },
    anyOptions,
    'settings of each network medium',
  ),
  physical_config: map(
    {
      uart: serial(115200),
      rs485: serial(9600),
      can: options(),
      lora: options(),
      bluetooth: options({
        mode: maybe(
          v.picklist(['udp_shim']),
          'udp_shim: packets by UDP to port instead of by radio, as the reference does',
        ),
        port: port(5454, 'port of the UDP shim', atStart),
      }),
    },
    anyOptions,
    'settings of each bus or radio',
  ),
}
