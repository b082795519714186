-- name: plan_pages
-- Ranges of ids of about $page_bytes each, with all rows about a memory; a large one stands alone.
WITH parts AS (
    SELECT id AS memory_id, strlen(content) + strlen(tags) + strlen(metadata) + 512 AS part_bytes
    FROM memories
    WHERE namespace_id = $namespace_id
    UNION ALL
    SELECT memory_id, strlen(content) + strlen(tags) + strlen(metadata) + 512
    FROM revisions
    WHERE namespace_id = $namespace_id
    UNION ALL
    SELECT memory_id, strlen(uri) + strlen(digest) + 128
    FROM evidence
    WHERE namespace_id = $namespace_id
    UNION ALL
    SELECT memory_id, strlen(target_id) + 64
    FROM relations
    WHERE namespace_id = $namespace_id
    UNION ALL
    SELECT memory_id, strlen(event_id) + 192
    FROM access_events
    WHERE namespace_id = $namespace_id
    UNION ALL
    SELECT memory_id, strlen(source_id) + strlen(losses) + 64
    FROM merge_sources
    WHERE namespace_id = $namespace_id
),

sized AS (
    SELECT memory_id, sum(part_bytes) AS memory_bytes
    FROM parts
    GROUP BY memory_id
),

placed AS (
    SELECT
        memory_id,
        (sum(memory_bytes) OVER (ORDER BY memory_id) - memory_bytes) // $page_bytes AS page
    FROM sized
)

SELECT min(memory_id) AS first_id, max(memory_id) AS last_id
FROM placed
GROUP BY page
ORDER BY page

-- name: count_memories
SELECT count(*) FROM memories WHERE namespace_id = $namespace_id

-- name: page_memories
SELECT
    id AS memory_id, revision, revision_kind, kind, status, content, confidence, importance, salience,
    tags, metadata, pinned, updated_at, expires_at, created_at, content_at, restored_at, tombstoned_at,
    last_accessed_at, access_count, origin, origin_digest
FROM memories
WHERE namespace_id = $namespace_id AND id BETWEEN $first_id AND $last_id
ORDER BY id

-- name: page_revisions
SELECT
    memory_id, revision, revision_kind, kind, status, content, confidence, importance, salience, tags,
    metadata, pinned, updated_at, expires_at
FROM revisions
WHERE namespace_id = $namespace_id AND memory_id BETWEEN $first_id AND $last_id
ORDER BY memory_id, revision

-- name: page_evidence
SELECT memory_id, uri, digest, kind, occurred_at, since_revision
FROM evidence
WHERE namespace_id = $namespace_id AND memory_id BETWEEN $first_id AND $last_id
ORDER BY memory_id, uri

-- name: page_relations
SELECT memory_id, kind, target_id, since_revision, until_revision
FROM relations
WHERE namespace_id = $namespace_id AND memory_id BETWEEN $first_id AND $last_id
ORDER BY memory_id, kind, target_id, since_revision

-- name: page_access_events
SELECT memory_id, event_kind, event_id, revision, occurred_at, context_id, actor
FROM access_events
WHERE namespace_id = $namespace_id AND memory_id BETWEEN $first_id AND $last_id
ORDER BY memory_id, event_kind, event_id

-- name: page_merge_sources
SELECT memory_id, revision, position, source_id, losses
FROM merge_sources
WHERE namespace_id = $namespace_id AND memory_id BETWEEN $first_id AND $last_id
ORDER BY memory_id, revision, position

-- name: page_merge_receipts
SELECT
    canonical_id AS memory_id, receipt_id, position, plan_id, run_id, revision, losers, figures,
    applied_at, released_at
FROM merge_receipts
WHERE namespace_id = $namespace_id AND canonical_id BETWEEN $first_id AND $last_id
ORDER BY canonical_id, position, receipt_id

-- name: page_kept_apart
SELECT memory_id, partner_id, content_digest, partner_digest, noted_at
FROM kept_apart
WHERE namespace_id = $namespace_id AND memory_id BETWEEN $first_id AND $last_id
ORDER BY memory_id, partner_id
