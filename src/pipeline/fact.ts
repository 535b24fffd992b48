// The forms of a measurement: a reading comes from a sensor, a fact is stored and sent. The dict form is the
// specification's ("Fact dict"); log, uplinks and storage use the record form.

/** Input of transmit: `[sensor_id, status, value, unit]` (specification, "Sensor reading"). */
export type Reading = readonly [sensor_id: string, status: string, value: number, unit: string | readonly string[]]

/** The specification's fact dict: id, s, t (seconds), t_raw (ms), then `s<N>_id/_s/_u/_v` with N from 1. */
export interface FactDict {
  id: string
  s: string
  t?: number
  t_raw?: number
  [key: string]: unknown
}

export interface SensorFact {
  id: string
  /** sensor status as received, for example 'OK' */
  status: string
  /** canonical UCUM unit (decision 0005); in dialect `attribute` the name of a physical attribute */
  unit: string
  /** in that unit; null = the sensor failed and keeps its place (decision 0025) */
  value: number | null
}

/** The content of a decoded or standardized packet, in record form. */
export interface Fact {
  /** device id */
  id: string
  /** device state, for example 'ONLINE' */
  state: string
  /** UNIX time in milliseconds */
  tRaw: number
  /** assigned id (AID) of the source; 4294967295 while unassigned */
  aid: number
  sensors: SensorFact[]
  /** free parts of the text: geohash, url, msg */
  extras?: Record<string, string>
}

/** How a packet reached us; logged with the fact. */
export interface LinkMetadata {
  /** medium name in the specification's spelling, for example 'UDP'; 'local' for own sensors */
  medium: string
  /** sender address in the medium's notation, for example '192.0.2.1:8080' */
  address?: string
  rssi?: number
  snr?: number
  /** AIDs of a frame with several hops, source last */
  route?: readonly number[]
  /** the packet itself, if the medium acknowledges; empty: it changed no template (gateway/receive/template-recovery.ts) */
  frame?: Uint8Array
  /** the fact's time is further in the future than receiver.max_future_s: newest values and last_seen ignore it (X36) */
  future?: true
  /** decoded with a template that was rebuilt from the log (X33) */
  template_rebuilt?: true
}

/** Record form → dict form; a missing value is null. */
export function factToDict(fact: Fact): FactDict {
  const dict: FactDict = { id: fact.id, s: fact.state, t: Math.floor(fact.tRaw / 1000), t_raw: fact.tRaw }
  fact.sensors.forEach((sensor, k) => {
    const n = k + 1
    dict[`s${n}_id`] = sensor.id
    dict[`s${n}_s`] = sensor.status
    dict[`s${n}_u`] = sensor.unit
    dict[`s${n}_v`] = sensor.value
  })
  return fact.extras ? Object.assign(dict, fact.extras) : dict
}
