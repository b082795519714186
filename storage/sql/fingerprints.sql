-- name: write_key
UPDATE memories
SET fingerprint_key = $fingerprint_key
WHERE namespace_id = $namespace_id AND id = $memory_id

-- name: write_keys
UPDATE memories
SET fingerprint_key = i.fingerprint_key
FROM incoming AS i
WHERE memories.namespace_id = i.namespace_id AND memories.id = i.memory_id

-- name: read_keyless
SELECT namespace_id, id, content
FROM memories
WHERE fingerprint_key IS NULL
ORDER BY namespace_id, id
LIMIT $limit

-- name: find_by_key
SELECT id, content, expires_at
FROM memories
WHERE namespace_id = $namespace_id
    AND fingerprint_key = $fingerprint_key
    AND status = 'active'
    AND (expires_at IS NULL OR expires_at > $now)
ORDER BY created_at, id
