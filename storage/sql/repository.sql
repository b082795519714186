-- name: find_change_set
-- The namespace's sequence, and what the set made if it was applied before.
SELECT n.sequence, c.digest, c.sequence, c.results
FROM namespaces AS n
LEFT JOIN change_sets AS c ON c.namespace_id = n.namespace_id AND c.idempotency_key = $key
WHERE n.namespace_id = $namespace_id

-- name: insert_change_set
INSERT INTO change_sets (namespace_id, idempotency_key, digest, sequence, results, occurred_at)
VALUES ($namespace_id, $key, $digest, $sequence, $results, $occurred_at)

-- name: find_statuses
SELECT id, status
FROM memories
WHERE namespace_id = $namespace_id AND id IN (SELECT unnest($ids::TEXT[]))
ORDER BY id

-- name: find_edges_to
SELECT memory_id, kind, target_id
FROM relations
WHERE namespace_id = $namespace_id
    AND until_revision IS NULL
    AND target_id IN (SELECT unnest($ids::TEXT[]))
ORDER BY memory_id, kind, target_id

-- name: change_states
-- Access counters are what the same transaction read, unless a merge takes the larger ones.
UPDATE memories AS m
SET
    revision = i.revision, revision_kind = i.revision_kind, kind = i.kind, status = i.status,
    content = i.content, confidence = i.confidence, importance = i.importance, salience = i.salience,
    tags = i.tags, metadata = i.metadata, pinned = i.pinned, marks = i.marks, created_at = i.created_at,
    updated_at = i.updated_at, content_at = i.content_at, expires_at = i.expires_at,
    restored_at = i.restored_at, tombstoned_at = i.tombstoned_at, access_count = i.access_count,
    last_accessed_at = i.last_accessed_at
FROM incoming AS i
WHERE m.namespace_id = i.namespace_id AND m.id = i.id AND m.revision = i.expected_revision

-- name: end_edges
UPDATE relations AS r
SET until_revision = i.until_revision
FROM incoming AS i
WHERE r.namespace_id = i.namespace_id
    AND r.memory_id = i.memory_id
    AND r.kind = i.kind
    AND r.target_id = i.target_id
    AND r.until_revision IS NULL
