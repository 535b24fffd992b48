// PostgreSQL, version 3: ids that several receivers assign (ids.ts). Once released it is never edited: a change is a new file here.
export const postgresIds: readonly string[] = [
  `CREATE TABLE os_ids (
    id BIGINT PRIMARY KEY,
    state TEXT NOT NULL,
    device_key TEXT COLLATE "C",
    meta TEXT NOT NULL,
    granted_to TEXT COLLATE "C",
    asked_by TEXT COLLATE "C",
    addr TEXT,
    seq INTEGER NOT NULL,
    request TEXT COLLATE "C",
    requested_at BIGINT NOT NULL,
    pool BOOLEAN NOT NULL,
    taken_back BOOLEAN NOT NULL DEFAULT false,
    ts BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    lease_expires_at BIGINT NOT NULL
  )`,
  'CREATE UNIQUE INDEX os_ids_key ON os_ids (device_key) WHERE device_key IS NOT NULL',
  `CREATE INDEX os_ids_lease ON os_ids (lease_expires_at) WHERE state <> 'free'`,
  `CREATE INDEX os_ids_free ON os_ids (taken_back, id) WHERE state = 'free'`,
  'CREATE INDEX os_ids_request ON os_ids (request) WHERE request IS NOT NULL',
  `CREATE INDEX os_ids_offer ON os_ids (asked_by, seq) WHERE state = 'offered'`,
  `CREATE TABLE os_id_addresses (
    address TEXT COLLATE "C" PRIMARY KEY,
    held INTEGER NOT NULL,
    proved BOOLEAN NOT NULL DEFAULT false,
    pool_at BIGINT NOT NULL DEFAULT 0
  )`,
  `CREATE TABLE os_id_state (
    one BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    next_id BIGINT NOT NULL DEFAULT 0,
    allocated BIGINT NOT NULL DEFAULT 0,
    released BIGINT NOT NULL DEFAULT 0,
    unproved BIGINT NOT NULL DEFAULT 0
  )`,
  'INSERT INTO os_id_state DEFAULT VALUES',
]
