// MySQL and MariaDB, version 2: the tables of the specification, as views. Once released it is never edited: a change is a new file here.
const SENSORS = 'os_packets_data p JOIN os_sensors_data s ON s.writer = p.writer AND s.seq = p.seq'
const text = (column: string): string => `CONVERT(${column} USING utf8mb4)`
const hex = (from: number, length: number): string => `SUBSTR(HEX(p.packet_uuid), ${from}, ${length})`
const UUID = `LOWER(CONCAT_WS('-', ${hex(1, 8)}, ${hex(9, 4)}, ${hex(13, 4)}, ${hex(17, 4)}, ${hex(21, 12)}))`
const parts = (end: string, value: string): string =>
  `COALESCE((SELECT JSON_OBJECTAGG(CONCAT('s', s.sensor_index, '${end}'), ${value}) FROM os_sensors_data s
    WHERE s.writer = p.writer AND s.seq = p.seq), '{}')`

export const mysqlViews: readonly string[] = [
  `CREATE OR REPLACE VIEW os_sensors AS SELECT ${UUID} AS packet_uuid, s.sensor_index, ${text('s.sensor_id')} AS sensor_id,
    ${text('s.sensor_status')} AS sensor_status, s.normalized_value, ${text('s.normalized_unit')} AS normalized_unit FROM ${SENSORS}`,
  `CREATE OR REPLACE VIEW os_packets AS SELECT ${UUID} AS packet_uuid, ${text('p.device_id')} AS device_id,
    ${text('p.device_status')} AS device_status, p.timestamp_raw, JSON_MERGE_PRESERVE(
      JSON_OBJECT('id', ${text('p.device_id')}, 's', ${text('p.device_status')}, 't', p.timestamp_raw, 't_raw', p.t_raw),
      ${parts('_id', text('s.sensor_id'))}, ${parts('_s', text('s.sensor_status'))},
      ${parts('_u', text('s.normalized_unit'))}, ${parts('_v', 's.normalized_value')}, COALESCE(p.extras, '{}')) AS payload_json,
    p.created_at FROM os_packets_data p`,
]
