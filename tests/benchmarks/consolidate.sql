-- name: list_twins
-- Members with the fingerprint of an earlier one, and the first that has it.
WITH shared AS (
    SELECT fingerprint_key
    FROM members
    GROUP BY fingerprint_key
    HAVING count(*) > 1
)

SELECT
    first_value(m.memory_id) OVER (PARTITION BY m.fingerprint_key ORDER BY m.created_at, m.memory_id) AS first_id,
    m.memory_id
FROM members AS m
SEMI JOIN shared AS s ON s.fingerprint_key = m.fingerprint_key
QUALIFY first_id <> m.memory_id

-- name: list_stored_twins
-- The same from the stored rows alone: no members are gathered.
WITH shared AS (
    SELECT fingerprint_key
    FROM duplicate_texts
    WHERE namespace_id = $namespace_id AND profile = $profile
    GROUP BY fingerprint_key
    HAVING count(*) > 1
),

keyed AS (
    SELECT t.text_number, t.fingerprint_key
    FROM duplicate_texts AS t
    SEMI JOIN shared AS s ON s.fingerprint_key = t.fingerprint_key
    WHERE t.namespace_id = $namespace_id AND t.profile = $profile
)

SELECT
    first_value(m.id) OVER (PARTITION BY k.fingerprint_key ORDER BY m.created_at, m.id) AS first_id,
    m.id
FROM keyed AS k
INNER JOIN memories AS m ON m.namespace_id = $namespace_id AND m.text_number = k.text_number
WHERE m.status = 'active' AND (m.expires_at IS NULL OR m.expires_at > $now)
QUALIFY first_id <> m.id

-- name: read_keys
SELECT m.id, m.status, epoch_us(m.expires_at), epoch_us(m.created_at), t.fingerprint_key
FROM memories AS m
INNER JOIN duplicate_texts AS t ON t.namespace_id = m.namespace_id AND t.text_number = m.text_number
ORDER BY m.created_at, m.id

-- name: read_texts
SELECT id, kind, content
FROM memories
WHERE status = 'active'
ORDER BY created_at, id

-- name: read_merged
SELECT reason, memory_id
FROM decisions
ORDER BY memory_id

-- name: sqlite_create
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    expires_at INTEGER,
    created_at INTEGER NOT NULL,
    fingerprint_key INTEGER NOT NULL
)

-- name: sqlite_insert
INSERT INTO keys VALUES (?, ?, ?, ?, ?)

-- name: sqlite_index
CREATE INDEX by_key ON keys (fingerprint_key, created_at, id, status, expires_at)

-- name: sqlite_analyze
ANALYZE

-- name: sqlite_keys
SELECT created_at, id, fingerprint_key
FROM keys
WHERE status = 'active' AND (expires_at IS NULL OR expires_at > ?)

-- name: sqlite_twins
-- Reads the index in its order: nothing is sorted, and few groups are looked at twice.
WITH shared AS (
    SELECT fingerprint_key
    FROM keys
    GROUP BY fingerprint_key
    HAVING count(*) > 1
)

SELECT first_id, id
FROM (
    SELECT
        k.id,
        first_value(k.id) OVER (PARTITION BY k.fingerprint_key ORDER BY k.created_at, k.id) AS first_id
    FROM shared AS s
    CROSS JOIN keys AS k ON k.fingerprint_key = s.fingerprint_key
    WHERE k.status = 'active' AND (k.expires_at IS NULL OR k.expires_at > ?)
)
WHERE first_id <> id
