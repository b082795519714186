-- name: list_twins
-- Members with the fingerprint of an earlier one, and the first that has it.
SELECT
    first_value(memory_id) OVER (PARTITION BY fingerprint_key ORDER BY created_at, memory_id) AS first_id,
    memory_id
FROM members
QUALIFY first_id <> memory_id

-- name: read_keys
SELECT m.id, t.fingerprint_key, epoch_us(m.created_at)
FROM memories AS m
INNER JOIN duplicate_texts AS t ON t.namespace_id = m.namespace_id AND t.text_number = m.text_number
WHERE m.status = 'active'

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
CREATE TABLE keys (id TEXT PRIMARY KEY, fingerprint_key INTEGER NOT NULL, created_at INTEGER NOT NULL)

-- name: sqlite_index
CREATE INDEX by_key ON keys (fingerprint_key, created_at, id)

-- name: sqlite_insert
INSERT INTO keys VALUES (?, ?, ?)

-- name: sqlite_twins
SELECT first_id, id
FROM (
    SELECT
        id,
        first_value(id) OVER (PARTITION BY fingerprint_key ORDER BY created_at, id) AS first_id
    FROM keys
)
WHERE first_id <> id
