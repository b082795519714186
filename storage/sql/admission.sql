-- name: find_known
SELECT m.id, m.status, m.origin_digest
FROM memories AS m
INNER JOIN incoming AS i ON i.id = m.id
WHERE m.namespace_id = $namespace_id
ORDER BY m.id

-- name: find_targets
SELECT m.id, m.status, count(r.kind) FILTER (r.kind <> 'supersedes') AS edges
FROM memories AS m
INNER JOIN incoming AS i ON i.id = m.id
LEFT JOIN relations AS r
    ON r.namespace_id = m.namespace_id AND r.memory_id = m.id AND r.until_revision IS NULL
WHERE m.namespace_id = $namespace_id
GROUP BY m.id, m.status
ORDER BY m.id

-- name: keep_linked
-- A memory that gets an edge from an admitted one changes: its state before is kept.
INSERT INTO revisions BY NAME
SELECT
    m.namespace_id, m.id AS memory_id, m.revision, m.revision_kind, m.kind, m.status, m.content,
    m.confidence, m.importance, m.salience, m.tags, m.metadata, m.pinned, m.updated_at, m.expires_at
FROM memories AS m
WHERE m.namespace_id = $namespace_id AND m.id IN (SELECT i.memory_id FROM incoming AS i)

-- name: step_linked
UPDATE memories
SET revision = revision + 1, revision_kind = 'relation_changed', updated_at = greatest($clock, updated_at)
WHERE namespace_id = $namespace_id AND id IN (SELECT i.memory_id FROM incoming AS i)

-- name: insert_linked
INSERT INTO relations (namespace_id, memory_id, kind, target_id, since_revision)
SELECT m.namespace_id, m.id, i.kind, i.target_id, m.revision
FROM incoming AS i
INNER JOIN memories AS m ON m.namespace_id = $namespace_id AND m.id = i.memory_id
