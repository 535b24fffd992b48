// Options of the Bluetooth medium, as in Config.json: meaning, bounds and defaults.
import { array, check, type InferOutput, maxLength, object, pipe, string } from 'valibot'
import { choice, flag, int, maxPacket, maybe, optionalText, port, text } from '../../src/config/fields'

/** a frame of 512 bytes is three notifications at the usual MTU of 247 */
const DEFAULT_MAX_PACKET = 512

export const bluetoothOptions = object({
  mode: choice(
    ['send', 'listen', 'udp_shim'],
    'send',
    'send: to the one peer; listen: to every peer; udp_shim: send by UDP to host and port instead of by radio',
  ),
  shim: choice(
    ['off', 'udp'],
    'off',
    'udp: raw packets by UDP to and from 127.0.0.1 and port instead of by radio, as the reference does',
  ),
  peers: maybe(
    pipe(
      array(pipe(string(), maxLength(248))),
      check(peers => new Set(peers.map(peer => peer.toLowerCase())).size === peers.length, 'names a peer twice'),
    ),
    'addresses (a4:c1:38:8d:18:b2) or advertised names of the devices with a Nordic UART service',
  ),
  adapter: text('hci0', 'the adapter, as ls /sys/class/bluetooth shows it'),
  framing: choice(
    ['uart', 'cobs'],
    'uart',
    'uart: STX packet ETX, understood by every peer; cobs: for os-node at both ends',
  ),
  max_packet: maxPacket(DEFAULT_MAX_PACKET, 4096, 32),
  extended_scan: flag(false, 'scan as Bluetooth 5 does, where the adapter can'),
  find_timeout_ms: int(15_000, 'time limit to hear a peer', { min: 1000, max: 60_000 }),
  connect_timeout_ms: int(10_000, 'time limit for connecting, after the peer was heard', { min: 1000, max: 60_000 }),
  silence_ms: int(60_000, 'restart a scan that hears nothing for this long', {
    min: 1000,
    max: 3_600_000,
  }),
  host: optionalText('the shim: address of the peer, or to listen on (127.0.0.1)'),
  port: port(5454, 'the shim: its UDP port; not used by the radio'),
})

export type BluetoothOptions = InferOutput<typeof bluetoothOptions>
