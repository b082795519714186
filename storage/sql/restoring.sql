-- name: find_tombstones
SELECT m.id
FROM memories AS m
LEFT JOIN apply_receipts AS r
    ON r.namespace_id = m.namespace_id
    AND r.memory_id = m.id
    AND r.action = 'tombstone'
    AND r.revision = m.revision
WHERE m.namespace_id = $namespace_id
    AND m.status = 'tombstoned'
    AND (
        m.id IN (SELECT unnest($ids::TEXT[]))
        OR r.run_id = $run_id
        OR coalesce(r.applied_at, m.tombstoned_at) >= $since
    )
ORDER BY m.id

-- name: sha256_contents
SELECT id, sha256(content)
FROM memories
WHERE namespace_id = $namespace_id AND id IN (SELECT unnest($ids::TEXT[]))
