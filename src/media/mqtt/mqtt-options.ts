// Options of the MQTT medium in Config.json (decision 0021). Invalid ones are refused with the key.
import * as v from 'valibot'
import { choice, flag, int, maxPacket, maybe, maybeInt, optionalText, section } from '../../config/fields'
import { tlsOption } from '../tls/tls-options'
import { levelsOf } from './topics'

const topic = (standard: string, help: string) =>
  v.optional(
    v.pipe(
      v.string(),
      v.maxLength(1024),
      v.check(
        text => (text === '' && standard.endsWith('state')) || levelsOf(text) !== null,
        '<aid> and <install> must be complete levels; # and + are not allowed',
      ),
      v.metadata({ help }),
    ),
    standard,
  )

export const mqttOptions = v.looseObject({
  mode: choice(['send', 'listen'], 'send', 'send: publish packets, get answers; listen: get packets of others'),
  host: optionalText('broker; there is no default'),
  port: maybeInt('port of the broker', { min: 1, max: 65_535 }),
  username: optionalText('user name at the broker'),
  password: optionalText('password at the broker', { secret: true }),
  tls: tlsOption('encryption: true, or its files and names; default port 8883'),
  protocol_version: maybe(v.picklist([4, 5]), 'left out: 5, else 4 (3.1.1)'),
  qos: v.optional(
    v.pipe(
      v.picklist([0, 1, 2]),
      v.metadata({ help: '0: best effort; 1: acknowledged; 2: exactly once from the broker; a sender uses 1' }),
    ),
    1,
  ),
  keepalive_s: int(30, 'seconds between pings; without answers the broker is lost', { min: 5, max: 65_535 }),
  session_expiry_s: int(
    604_800,
    'seconds for which the broker stores packets of an offline client (3.1.1: its own setting)',
    {
      max: 0xffffffff,
    },
  ),
  topics: section(
    {
      up: topic('os/<aid>/up', 'topic of packets; <aid>: id of the sender, or new-<install> without one'),
      down: topic('os/<aid>/down', 'where answers go'),
      state: topic('os/<aid>/state', 'where online and offline are published, retained; empty: nowhere'),
    },
    'templates of the topics',
  ),
  client_id: maybe(v.pipe(v.string(), v.minLength(1), v.maxLength(256)), 'left out: made from name and installation'),
  compat: flag(
    false,
    'publish to os/sensors/raw, subscribe to os/sensors/#, as the reference does; nothing comes back',
  ),
  shared: maybe(
    v.pipe(v.string(), v.regex(/^[^/+#\0]+$/, 'a name without / + #')),
    'name of a group of receivers that share the packets between them',
    { side: 'listen' },
  ),
  max_in_flight: int(256, 'packets sent, or received, that are not acknowledged yet', { min: 1, max: 65_535 }),
  max_packet: maxPacket(65_535, 65_535),
})

export type MqttOptions = v.InferOutput<typeof mqttOptions>
