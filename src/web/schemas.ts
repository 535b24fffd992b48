// Shared schemas of bodies and answers. Answers list their keys exactly; `open` ones may have more, if their content is
// defined elsewhere (status, configuration, sections).
import * as v from 'valibot'
import { ROLES } from '../services/users'

export const ok = v.literal(true)
export const text = v.string()
export const flag = v.boolean()
export const whole = v.pipe(v.number(), v.integer())
export const maybeText = v.optional(v.string())
/** UNIX seconds */
export const seconds = v.pipe(v.number(), v.integer())
export const role = v.picklist(ROLES, `role must be one of ${ROLES.join(', ')}`)
export const open = v.looseObject({})
export const anything = v.unknown()
export const texts = v.array(v.string())

/** A required text of a body that must not be blank. */
export const needed = (key: string) => {
  const message = `${key} is required`
  return v.pipe(
    v.string(message),
    v.check(value => value.trim() !== '', message),
  )
}

/** `{ok: true, …}` with exactly these keys. */
export const answer = <E extends v.ObjectEntries>(entries: E) => v.strictObject({ ok, ...entries })

/** `state` and `reason` only while the disk fails */
export const health = answer({ service: text, state: v.optional(text), reason: v.optional(text) })

export const user = { username: text, role, enabled: flag, created_at: seconds, updated_at: seconds }

export const session = {
  role,
  username: text,
  expires_at: v.nullable(seconds),
}

export const change = { key: text, old: anything, new: anything, restart: flag }

export const job = {
  ok,
  job_id: v.pipe(v.string(), v.uuid()),
  status: v.picklist(['queued', 'running', 'completed', 'failed', 'cancelled']),
  stdout: text,
  stderr: text,
  exit_code: v.nullable(whole),
  command: text,
  background: flag,
  username: text,
  created_at: v.number(),
  started_at: v.nullable(v.number()),
  finished_at: v.nullable(v.number()),
  truncated: flag,
}

const device = v.strictObject({ device_id: text, last_seen: seconds, packet_count: whole })
const packet = v.strictObject({
  packet_uuid: text,
  device_id: text,
  device_status: text,
  timestamp_raw: seconds,
  payload_json: open,
  created_at: seconds,
})
const sensor = {
  sensor_index: whole,
  sensor_id: text,
  sensor_status: text,
  normalized_value: v.nullable(v.number()),
  normalized_unit: v.nullable(text),
}
const paged = { total: whole, limit: whole, offset: whole }
export const devices = answer({ devices: v.array(device), ...paged })
export const packets = answer({ packets: v.array(packet), ...paged })
export const onePacket = answer({ packet, sensors: v.array(v.strictObject(sensor)) })
export const sensors = answer({
  sensors: v.array(v.strictObject({ packet_uuid: text, ...sensor, device_id: text, timestamp_raw: seconds })),
  ...paged,
})
const maybeNumber = v.nullable(v.number())
export const history = answer({
  buckets: v.array(v.strictObject({ t: seconds, count: whole, min: maybeNumber, mean: maybeNumber, max: maybeNumber })),
  since: seconds,
  until: seconds,
  units: texts,
})

const flags = v.record(v.string(), v.boolean())
export const transport = answer({
  transport: v.strictObject({
    application_status: flags,
    transport_status: flags,
    physical_status: flags,
    transporters_status: flags,
    active_transporters: texts,
  }),
  items: v.array(v.looseObject({ name: text, layer: text, enabled: flag })),
})
