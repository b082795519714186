-- name: read_serving
SELECT p.partition, p.publication_id, u.record_profile
FROM serving AS s
INNER JOIN partitions AS p ON p.partition = s.partition
INNER JOIN publications AS u ON u.publication_id = p.publication_id
WHERE s.namespace_id = $namespace_id AND p.phase = 'verified'

-- name: list_unserved
SELECT m.id, m.revision, 'sha256:' || sha256(m.content) AS content_digest
FROM memories AS m
LEFT JOIN publication_rows AS r
    ON r.publication_id = $publication_id
    AND r.memory_id = m.id
    AND r.content_digest = 'sha256:' || sha256(m.content)
WHERE m.namespace_id = $namespace_id
    AND m.id IN (SELECT unnest($ids::TEXT[]))
    AND r.memory_id IS NULL
ORDER BY m.id

-- name: list_never_served
SELECT record_id
FROM embedding_attempts
WHERE partition = $partition
    AND record_id IN (SELECT unnest($record_ids::TEXT[]))
    AND state IN ('permanent', 'quarantined')
