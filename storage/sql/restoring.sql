-- name: find_tombstones
-- A tombstone may change its edges: whoever made it has a receipt of its first revision as one.
WITH tombstones AS (
    SELECT m.id, m.tombstoned_at, coalesce(max(v.revision), 0) + 1 AS revision
    FROM memories AS m
    LEFT JOIN revisions AS v
        ON v.namespace_id = m.namespace_id AND v.memory_id = m.id AND v.status <> 'tombstoned'
    WHERE m.namespace_id = $namespace_id AND m.status = 'tombstoned'
    GROUP BY m.id, m.tombstoned_at
)

SELECT t.id
FROM tombstones AS t
LEFT JOIN apply_receipts AS r
    ON r.namespace_id = $namespace_id
    AND r.memory_id = t.id
    AND r.action = 'tombstone'
    AND r.revision = t.revision
WHERE t.id IN (SELECT unnest($ids::TEXT[]))
    OR r.run_id = $run_id
    OR coalesce(r.applied_at, t.tombstoned_at) >= $since
ORDER BY t.id

-- name: sha256_contents
SELECT id, sha256(content)
FROM memories
WHERE namespace_id = $namespace_id AND id IN (SELECT unnest($ids::TEXT[]))

-- name: has_run
-- A merge by hand has no row among the runs, and imported receipts name runs of another store.
SELECT
    EXISTS (SELECT 1 FROM runs WHERE run_id = $run_id)
    OR EXISTS (SELECT 1 FROM merge_receipts WHERE run_id = $run_id)
    OR EXISTS (SELECT 1 FROM apply_receipts WHERE run_id = $run_id)
