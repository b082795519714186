-- name: attach_access_events
-- The first of equal event ids: a file may say one twice.
INSERT INTO access_events BY NAME
SELECT
    m.namespace_id, i.event_kind, i.event_id, i.memory_id, i.revision, i.occurred_at, i.context_id, i.actor
FROM incoming AS i
INNER JOIN memories AS m ON m.namespace_id = $namespace_id AND m.id = i.memory_id
WHERE NOT EXISTS (
    SELECT 1
    FROM access_events AS a
    WHERE a.namespace_id = $namespace_id AND a.event_kind = i.event_kind AND a.event_id = i.event_id
)
QUALIFY row_number() OVER (PARTITION BY i.event_kind, i.event_id ORDER BY i.memory_id, i.occurred_at) = 1

-- name: attach_merge_sources
INSERT INTO merge_sources BY NAME
SELECT m.namespace_id, i.memory_id, i.revision, i.position, i.source_id, i.losses
FROM incoming AS i
INNER JOIN memories AS m ON m.namespace_id = $namespace_id AND m.id = i.memory_id
QUALIFY row_number() OVER (PARTITION BY i.memory_id, i.revision, i.position ORDER BY i.source_id) = 1

-- name: attach_merge_receipts
INSERT INTO merge_receipts BY NAME
SELECT
    i.receipt_id, i.position, m.namespace_id, i.plan_id, i.run_id, i.memory_id AS canonical_id,
    i.revision, i.losers, i.figures, i.applied_at, i.released_at
FROM incoming AS i
INNER JOIN memories AS m ON m.namespace_id = $namespace_id AND m.id = i.memory_id
WHERE NOT EXISTS (SELECT 1 FROM merge_receipts AS r WHERE r.receipt_id = i.receipt_id)
QUALIFY row_number() OVER (PARTITION BY i.receipt_id ORDER BY i.memory_id) = 1

-- name: attach_kept_apart
INSERT INTO kept_apart BY NAME
SELECT
    m.namespace_id, least(i.memory_id, i.partner_id) AS memory_id, greatest(i.memory_id, i.partner_id) AS partner_id,
    CASE WHEN i.memory_id < i.partner_id THEN i.content_digest ELSE i.partner_digest END AS content_digest,
    CASE WHEN i.memory_id < i.partner_id THEN i.partner_digest ELSE i.content_digest END AS partner_digest,
    i.noted_at
FROM incoming AS i
INNER JOIN memories AS m ON m.namespace_id = $namespace_id AND m.id = i.memory_id
WHERE i.memory_id <> i.partner_id
    AND NOT EXISTS (
        SELECT 1
        FROM kept_apart AS k
        WHERE k.namespace_id = $namespace_id
            AND k.memory_id = least(i.memory_id, i.partner_id)
            AND k.partner_id = greatest(i.memory_id, i.partner_id)
    )
QUALIFY row_number() OVER (
    PARTITION BY least(i.memory_id, i.partner_id), greatest(i.memory_id, i.partner_id)
    ORDER BY i.noted_at DESC, i.memory_id
) = 1

-- name: attach_origins
UPDATE memories
SET origin_digest = i.origin_digest
FROM incoming AS i
WHERE memories.namespace_id = $namespace_id AND memories.id = i.memory_id
