CREATE OR REPLACE VIEW os_sensors AS SELECT LOWER(CONCAT_WS('-', SUBSTR(HEX(p.packet_uuid), 1, 8), SUBSTR(HEX(p.packet_uuid), 9, 4), SUBSTR(HEX(p.packet_uuid), 13, 4), SUBSTR(HEX(p.packet_uuid), 17, 4), SUBSTR(HEX(p.packet_uuid), 21, 12))) AS packet_uuid, s.sensor_index, CONVERT(s.sensor_id USING utf8mb4) AS sensor_id,
    CONVERT(s.sensor_status USING utf8mb4) AS sensor_status, s.normalized_value, CONVERT(s.normalized_unit USING utf8mb4) AS normalized_unit FROM os_packets_data p JOIN os_sensors_data s ON s.writer = p.writer AND s.seq = p.seq;

CREATE OR REPLACE VIEW os_packets AS SELECT LOWER(CONCAT_WS('-', SUBSTR(HEX(p.packet_uuid), 1, 8), SUBSTR(HEX(p.packet_uuid), 9, 4), SUBSTR(HEX(p.packet_uuid), 13, 4), SUBSTR(HEX(p.packet_uuid), 17, 4), SUBSTR(HEX(p.packet_uuid), 21, 12))) AS packet_uuid, CONVERT(p.device_id USING utf8mb4) AS device_id,
    CONVERT(p.device_status USING utf8mb4) AS device_status, p.timestamp_raw, JSON_MERGE_PRESERVE(
      JSON_OBJECT('id', CONVERT(p.device_id USING utf8mb4), 's', CONVERT(p.device_status USING utf8mb4), 't', p.timestamp_raw, 't_raw', p.t_raw),
      COALESCE((SELECT JSON_OBJECTAGG(CONCAT('s', s.sensor_index, '_id'), CONVERT(s.sensor_id USING utf8mb4)) FROM os_sensors_data s
    WHERE s.writer = p.writer AND s.seq = p.seq), '{}'), COALESCE((SELECT JSON_OBJECTAGG(CONCAT('s', s.sensor_index, '_s'), CONVERT(s.sensor_status USING utf8mb4)) FROM os_sensors_data s
    WHERE s.writer = p.writer AND s.seq = p.seq), '{}'),
      COALESCE((SELECT JSON_OBJECTAGG(CONCAT('s', s.sensor_index, '_u'), CONVERT(s.normalized_unit USING utf8mb4)) FROM os_sensors_data s
    WHERE s.writer = p.writer AND s.seq = p.seq), '{}'), COALESCE((SELECT JSON_OBJECTAGG(CONCAT('s', s.sensor_index, '_v'), s.normalized_value) FROM os_sensors_data s
    WHERE s.writer = p.writer AND s.seq = p.seq), '{}'), COALESCE(p.extras, '{}')) AS payload_json,
    p.created_at FROM os_packets_data p;
