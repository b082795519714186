-- name: read_members
-- The active memories of a namespace, as a refresh sees them: in id order, without their texts.
SELECT id AS memory_id, revision, 'sha256:' || sha256(content) AS content_digest, created_at
FROM memories
WHERE namespace_id = $namespace_id AND status = 'active'
ORDER BY id

-- name: read_texts
-- Only where the content is still the one that was asked for.
SELECT i.record_id, m.content
FROM incoming AS i
INNER JOIN memories AS m ON m.namespace_id = $namespace_id AND m.id = i.memory_id
WHERE m.status = 'active' AND 'sha256:' || sha256(m.content) = i.content_digest

-- name: count_active
SELECT count(*) FROM memories WHERE namespace_id = $namespace_id AND status = 'active'
