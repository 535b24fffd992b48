// PostgreSQL, version 2: the tables of the specification, as views. Once released it is never edited: a change is a new file here.
const SENSORS = `CROSS JOIN LATERAL unnest(p.sensor_ids, p.sensor_statuses, p.sensor_values, p.sensor_units)
  WITH ORDINALITY AS s(id, status, normalized_value, unit, sensor_index)`

export const postgresViews: readonly string[] = [
  `CREATE VIEW os_sensors AS SELECT p.packet_uuid, s.sensor_index::int, COALESCE(s.id, '') AS sensor_id,
    COALESCE(s.status, '') AS sensor_status, s.normalized_value, COALESCE(s.unit, '') AS normalized_unit
    FROM os_packets_data p ${SENSORS}`,
  `CREATE VIEW os_packets AS SELECT p.packet_uuid, p.device_id, p.device_status, p.timestamp_raw,
    jsonb_build_object('id', p.device_id, 's', p.device_status, 't', p.timestamp_raw, 't_raw', p.t_raw)
    || COALESCE((SELECT jsonb_object_agg('s' || s.sensor_index || e.key, e.value) FROM (SELECT) one ${SENSORS}
      CROSS JOIN LATERAL (VALUES ('_id', to_jsonb(COALESCE(s.id, ''))), ('_s', to_jsonb(COALESCE(s.status, ''))),
        ('_u', to_jsonb(COALESCE(s.unit, ''))), ('_v', COALESCE(to_jsonb(s.normalized_value), 'null'))) e(key, value)), '{}')
    || CASE WHEN strpos(p.extras, '\\u0000') > 0 THEN '{}' ELSE COALESCE(p.extras::jsonb, '{}') END AS payload_json,
    p.created_at FROM os_packets_data p`,
]
