CREATE TABLE IF NOT EXISTS os_writers (
    writer INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    origin BIGINT NOT NULL UNIQUE,
    seq BIGINT NOT NULL DEFAULT 0,
    packets BIGINT NOT NULL DEFAULT 0,
    duplicates BIGINT NOT NULL DEFAULT 0
  ) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS os_packets_data (
    writer INT NOT NULL,
    seq BIGINT NOT NULL,
    packet_uuid BINARY(16) NOT NULL,
    device_id VARBINARY(2048) NOT NULL,
    device_status VARBINARY(2048) NOT NULL,
    timestamp_raw BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    t_raw DOUBLE NOT NULL,
    boot BIGINT NOT NULL,
    unsynced TINYINT NOT NULL,
    extras MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    PRIMARY KEY (writer, seq),
    UNIQUE KEY os_packets_uuid (packet_uuid),
    KEY os_packets_time (timestamp_raw),
    KEY os_packets_device (device_id, timestamp_raw),
    KEY os_packets_unsynced (unsynced, writer, boot)
  ) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS os_sensors_data (
    writer INT NOT NULL,
    seq BIGINT NOT NULL,
    sensor_index INT NOT NULL,
    sensor_id VARBINARY(2048) NOT NULL,
    sensor_status VARBINARY(2048) NOT NULL,
    normalized_value DOUBLE,
    normalized_unit VARBINARY(2048) NOT NULL,
    PRIMARY KEY (writer, seq, sensor_index)
  ) ENGINE=InnoDB;
