-- name: find_event
SELECT memory_id, revision, occurred_at, context_id, actor
FROM access_events
WHERE namespace_id = $namespace_id AND event_kind = $event_kind AND event_id = $event_id

-- name: insert_event
INSERT INTO access_events (
    namespace_id, event_kind, event_id, memory_id, revision, occurred_at, context_id, actor
)
VALUES (
    $namespace_id, $event_kind, $event_id, $memory_id, $revision, $occurred_at, $context_id, $actor
)

-- name: find_state
-- The current state, and since when the asked revision held; NULL if it never was.
SELECT
    m.revision, m.status, m.expires_at,
    CASE WHEN m.revision = $revision THEN m.updated_at ELSE r.updated_at END AS since
FROM memories AS m
LEFT JOIN revisions AS r
    ON r.namespace_id = m.namespace_id AND r.memory_id = m.id AND r.revision = $revision
WHERE m.namespace_id = $namespace_id AND m.id = $memory_id

-- name: count_access
-- The columns that the sweep's score reads, moved together (spec/sweep.md R20); counts saturate.
UPDATE memories
SET
    access_count = least(access_count::HUGEINT + $uses, 9223372036854775807)::BIGINT,
    last_accessed_at = greatest(last_accessed_at, $occurred_at)
WHERE namespace_id = $namespace_id AND id = $memory_id

-- name: read_usage
SELECT
    count(*) FILTER (a.event_kind = 'admission') AS admissions,
    count(*) FILTER (a.event_kind = 'use') AS uses
FROM memories AS m
LEFT JOIN access_events AS a ON a.namespace_id = m.namespace_id AND a.memory_id = m.id
WHERE m.namespace_id = $namespace_id AND m.id = $memory_id
GROUP BY m.id
