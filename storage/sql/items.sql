-- name: read_facts
-- Of all, or of those that have any of the tags.
SELECT
    id, revision, epoch_us(created_at) AS created_us,
    epoch_us(greatest(created_at, content_at, restored_at)) AS age_clock_us, importance::DOUBLE AS importance
FROM memories
WHERE namespace_id = $namespace_id
    AND status = 'active'
    AND (expires_at IS NULL OR expires_at > $now)
    AND ($tags::TEXT[] IS NULL OR list_has_any(from_json(tags, '["VARCHAR"]'), $tags::TEXT[]))

-- name: read_texts
-- Of all, or of those that may match: what matches, and how well, is decided on the texts.
SELECT
    id, revision, epoch_us(created_at) AS created_us,
    epoch_us(greatest(created_at, content_at, restored_at)) AS age_clock_us, importance::DOUBLE AS importance,
    content, tags, kind
FROM memories
WHERE namespace_id = $namespace_id
    AND status = 'active'
    AND (expires_at IS NULL OR expires_at > $now)
    AND (
        $pattern::TEXT IS NULL
        OR regexp_matches(content, $pattern)
        OR regexp_matches(tags, $pattern)
        OR regexp_matches(kind, $pattern)
    )

-- name: find_visible
SELECT id, revision
FROM memories
WHERE namespace_id = $namespace_id
    AND id = $memory_id
    AND status = 'active'
    AND (expires_at IS NULL OR expires_at > $now)

-- name: list_recent
SELECT id, revision
FROM memories
WHERE namespace_id = $namespace_id
    AND status = 'active'
    AND (expires_at IS NULL OR expires_at > $now)
ORDER BY created_at DESC, id
LIMIT $limit

-- name: list_important
SELECT id, revision
FROM memories
WHERE namespace_id = $namespace_id
    AND status = 'active'
    AND (expires_at IS NULL OR expires_at > $now)
    AND importance >= $threshold::FLOAT
ORDER BY importance DESC, created_at DESC, id
LIMIT $limit

-- name: count_visible
SELECT count(*)
FROM memories
WHERE namespace_id = $namespace_id
    AND status = 'active'
    AND (expires_at IS NULL OR expires_at > $now)

-- name: count_reads
-- The columns that the sweep's score reads, moved together; counts saturate (spec/sweep.md R20).
UPDATE memories
SET
    access_count = least(access_count::HUGEINT + 1, 9223372036854775807)::BIGINT,
    last_accessed_at = greatest(last_accessed_at, $now)
FROM incoming AS i
WHERE memories.namespace_id = $namespace_id
    AND memories.id = i.id
    AND memories.revision = i.revision
    AND memories.status = 'active'
    AND (memories.expires_at IS NULL OR memories.expires_at > $now)

-- name: keep_all
INSERT INTO revisions BY NAME
SELECT
    namespace_id, id AS memory_id, revision, revision_kind, kind, status, content, confidence, importance,
    salience, tags, metadata, pinned, updated_at, expires_at
FROM memories
WHERE namespace_id = $namespace_id AND status <> 'tombstoned'

-- name: tombstone_all
UPDATE memories
SET
    status = 'tombstoned', tombstoned_at = $now, revision = revision + 1,
    revision_kind = 'status_changed', updated_at = greatest($now, updated_at)
WHERE namespace_id = $namespace_id AND status <> 'tombstoned'
