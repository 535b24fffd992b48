CREATE TABLE IF NOT EXISTS os_writers (
    writer INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    origin BIGINT NOT NULL UNIQUE,
    seq BIGINT NOT NULL DEFAULT 0,
    packets BIGINT NOT NULL DEFAULT 0,
    duplicates BIGINT NOT NULL DEFAULT 0
  );

CREATE TABLE os_packets_data (
    day INTEGER NOT NULL,
    writer INTEGER NOT NULL,
    seq BIGINT NOT NULL,
    packet_uuid UUID NOT NULL,
    device_id TEXT COLLATE "C" NOT NULL,
    device_status TEXT COLLATE "C" NOT NULL,
    timestamp_raw BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    t_raw DOUBLE PRECISION NOT NULL,
    boot BIGINT NOT NULL,
    unsynced SMALLINT NOT NULL,
    sensor_ids TEXT[] COLLATE "C" NOT NULL,
    sensor_statuses TEXT[] COLLATE "C" NOT NULL,
    sensor_values DOUBLE PRECISION[] NOT NULL,
    sensor_units TEXT[] COLLATE "C" NOT NULL,
    extras TEXT
  ) PARTITION BY LIST (day);

CREATE UNIQUE INDEX os_packets_uuid ON os_packets_data (packet_uuid, day);

CREATE INDEX os_packets_time ON os_packets_data (timestamp_raw);

CREATE INDEX os_packets_device ON os_packets_data (device_id, timestamp_raw);

CREATE INDEX os_packets_unsynced ON os_packets_data (writer, boot) WHERE unsynced = 1;

CREATE TABLE os_packets_rest PARTITION OF os_packets_data DEFAULT;
