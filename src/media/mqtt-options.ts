// Options of the MQTT medium as they stand in Config.json (D19). Wrong ones are refused with the key named.
import * as v from 'valibot'
import { levelsOf } from './mqtt-topics'
import { tlsSchema } from './tls'

const whole = (least: number, most: number) => v.pipe(v.number(), v.integer(), v.minValue(least), v.maxValue(most))

const topic = v.pipe(
  v.string(),
  v.maxLength(1024),
  v.check(
    text => levelsOf(text) !== null,
    '<aid> and <install> are whole levels, and # and + have no place in a topic',
  ),
)

export const mqttOptions = v.looseObject({
  /** `send`: packets go up and answers come down; `listen`: packets of others come from the broker */
  mode: v.optional(v.picklist(['send', 'listen']), 'send'),
  host: v.optional(v.string()),
  port: v.optional(whole(1, 65_535)),
  username: v.optional(v.string()),
  password: v.optional(v.string()),
  /** the port left out is then 8883 */
  tls: v.optional(tlsSchema),
  /** left out: 5, and 4 (3.1.1) where the broker does not speak 5 */
  protocol_version: v.optional(v.picklist([4, 5])),
  qos: v.optional(v.picklist([0, 1, 2]), 1),
  keepalive_s: v.optional(whole(5, 65_535), 30),
  /**
   * How long the broker keeps what came while we were away (5 only; under 3.1.1 the broker decides). Left out: a week for
   * who listens, nothing for who sends, whose store is the log.
   */
  session_expiry_s: v.optional(whole(0, 0xffffffff)),
  /** `<aid>` is the id of the sender, or `new-<install>` before it has one; an empty state: none is published */
  topics: v.optional(
    v.object({
      up: v.optional(topic, 'os/<aid>/up'),
      down: v.optional(topic, 'os/<aid>/down'),
      state: v.optional(v.union([v.literal(''), topic]), 'os/<aid>/state'),
    }),
    {},
  ),
  /** left out: made of id and installation, so that it stays the same */
  client_id: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(256))),
  /** publishes to os/sensors/raw and subscribes to os/sensors/#, as the reference does; nothing comes back */
  compat: v.optional(v.boolean(), false),
  /** name of a group of receivers that share the packets between them (D15) */
  shared: v.optional(v.pipe(v.string(), v.regex(/^[^/+#\0]+$/, 'a name without / + #'))),
  /** packets sent, or received, that are not acknowledged yet */
  max_in_flight: v.optional(whole(1, 65_535), 256),
  max_packet: v.optional(whole(64, 65_535), 65_535),
})

export type MqttOptions = v.InferOutput<typeof mqttOptions>
