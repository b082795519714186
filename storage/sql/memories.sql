-- name: insert_memories
INSERT INTO memories BY NAME
SELECT
    namespace_id, id, revision, revision_kind, kind, status, content, confidence, importance, salience,
    tags, metadata, pinned, marks, created_at, updated_at, content_at, expires_at, restored_at,
    tombstoned_at, last_accessed_at, access_count, origin, origin_digest
FROM incoming

-- name: insert_evidence
INSERT INTO evidence BY NAME
SELECT namespace_id, memory_id, uri, digest, kind, occurred_at, since_revision
FROM incoming

-- name: insert_relations
INSERT INTO relations BY NAME
SELECT namespace_id, memory_id, kind, target_id, since_revision, until_revision
FROM incoming

-- name: insert_revisions
INSERT INTO revisions BY NAME
SELECT
    namespace_id, memory_id, revision, revision_kind, kind, status, content, confidence, importance,
    salience, tags, metadata, pinned, updated_at, expires_at
FROM incoming

-- name: read_memories
SELECT
    m.id, m.revision, m.revision_kind, m.kind, m.status, m.content, m.confidence, m.importance, m.salience,
    m.tags, m.metadata, m.pinned, m.marks, m.created_at, m.updated_at, m.content_at, m.expires_at,
    m.restored_at, m.tombstoned_at, m.last_accessed_at, m.access_count, m.origin, m.origin_digest
FROM memories AS m
WHERE m.namespace_id = $namespace_id AND m.id IN (SELECT unnest($ids::TEXT[]))
ORDER BY m.id

-- name: find_memory
SELECT n.namespace_id, m.revision, m.status
FROM memories AS m
INNER JOIN namespaces AS n ON n.namespace_id = m.namespace_id
WHERE m.id = $memory_id
ORDER BY n.namespace_key

-- name: read_evidence
SELECT memory_id, uri, digest, kind, occurred_at, since_revision
FROM evidence
WHERE namespace_id = $namespace_id AND memory_id IN (SELECT unnest($ids::TEXT[]))
ORDER BY memory_id, uri

-- name: read_relations
SELECT memory_id, kind, target_id, since_revision, until_revision
FROM relations
WHERE namespace_id = $namespace_id AND memory_id IN (SELECT unnest($ids::TEXT[]))
ORDER BY memory_id, kind, target_id, since_revision

-- name: read_revisions
SELECT
    revision, revision_kind, kind, status, content, confidence, importance, salience, tags, metadata,
    pinned, updated_at, expires_at
FROM revisions
WHERE namespace_id = $namespace_id AND memory_id = $memory_id
ORDER BY revision

-- name: list_live
-- What readers see: active and not expired (spec/sweep.md R5); the filter runs before the limit.
SELECT id, revision, kind, content, importance, pinned, updated_at, expires_at
FROM memories
WHERE namespace_id = $namespace_id
    AND status = 'active'
    AND (expires_at IS NULL OR expires_at > $now)
ORDER BY updated_at DESC, id
LIMIT $limit

-- name: status_before_tombstone
SELECT status
FROM revisions
WHERE namespace_id = $namespace_id AND memory_id = $memory_id AND status <> 'tombstoned'
ORDER BY revision DESC
LIMIT 1

-- name: memory_state
SELECT
    sum(total)::BIGINT AS total, sum(active)::BIGINT AS active, sum(candidate)::BIGINT AS candidate,
    sum(superseded)::BIGINT AS superseded, sum(conflicted)::BIGINT AS conflicted,
    sum(expired_pending)::BIGINT AS expired_pending, sum(tombstoned)::BIGINT AS tombstoned
FROM memory_state($now)
WHERE $tenant::TEXT IS NULL OR (tenant = $tenant AND principal = $principal AND scope = $scope)
