// Tables of the SQL view, and the columns its queries read. packet_uuid is stored as 16 bytes (decision 0012); os_sensors refers to its
// packet by packet_seq, the seq of the packet's log record.

// An attached :memory: database keeps its pages in place; the one that sql.js opens is in a virtual file system, which copies
// every page in and out. Its journal is in memory too, so that a failed batch can be rolled back.
export const PAGE_BYTES = 4096

const tables = (schema: string): string => `
CREATE TABLE ${schema}.os_packets (
  seq INTEGER PRIMARY KEY,
  packet_uuid BLOB NOT NULL,
  device_id TEXT NOT NULL,
  device_status TEXT NOT NULL,
  timestamp_raw INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  t_raw REAL NOT NULL,
  extras TEXT,
  boot INTEGER NOT NULL,
  unsynced INTEGER NOT NULL
);
CREATE INDEX ${schema}.os_packets_time ON os_packets(timestamp_raw);
CREATE TABLE ${schema}.os_sensors (
  packet_seq INTEGER NOT NULL,
  sensor_index INTEGER NOT NULL,
  sensor_id TEXT NOT NULL,
  sensor_status TEXT NOT NULL,
  normalized_value REAL,
  normalized_unit TEXT,
  PRIMARY KEY (packet_seq, sensor_index)
) WITHOUT ROWID;`

/** The open window, and the sums of the sealed ones (`win`: the first seq of a window). */
export const SCHEMA = `
PRAGMA temp_store=MEMORY;
ATTACH DATABASE ':memory:' AS view;
PRAGMA view.page_size=${PAGE_BYTES};
${tables('view')}
CREATE INDEX view.os_packets_device ON os_packets(device_id, timestamp_raw);
ATTACH DATABASE ':memory:' AS sums;
CREATE TABLE sums.packets (win INTEGER NOT NULL, device_id TEXT NOT NULL, part TEXT NOT NULL, n INTEGER, lo INTEGER, hi INTEGER);
CREATE TABLE sums.sensors (win INTEGER NOT NULL, device_id TEXT NOT NULL, part TEXT NOT NULL, n INTEGER, lo INTEGER, hi INTEGER);`

/**
 * The open window as a database for a file, only indexed by time and seq, which keeps the file small. The tables have the
 * same format, without ORDER BY: SQLite copies the rows in key order.
 */
export const SEAL = `
PRAGMA sealed.journal_mode=OFF;
PRAGMA sealed.synchronous=OFF;
PRAGMA sealed.page_size=${PAGE_BYTES};
BEGIN;
${tables('sealed')}
INSERT INTO sealed.os_packets SELECT * FROM view.os_packets;
INSERT INTO sealed.os_sensors SELECT * FROM view.os_sensors;
COMMIT;`

// Texts are read as bytes: sql.js truncates a text at its first NUL, and a foreign packet may contain one.
const bytesOf = (column: string): string => `CAST(${column} AS BLOB)`
export const DEVICE = bytesOf('p.device_id')
export const PACKET_COLUMNS = `p.seq, p.packet_uuid, ${DEVICE}, ${bytesOf('p.device_status')}, p.timestamp_raw, p.created_at,
  p.t_raw, p.extras`
export const SENSOR_COLUMNS = `s.sensor_index, ${bytesOf('s.sensor_id')}, ${bytesOf('s.sensor_status')}, s.normalized_value,
  ${bytesOf('s.normalized_unit')}`
