-- name: insert_receipts
INSERT INTO merge_receipts BY NAME
SELECT
    receipt_id, (SELECT coalesce(max(r.position), 0) FROM merge_receipts AS r) + place AS position,
    $namespace_id AS namespace_id, plan_id, run_id, canonical_id, revision, losers, figures,
    applied_at
FROM incoming

-- name: count_change_sets
SELECT canonical_id, count(*)
FROM merge_receipts
WHERE plan_id = $plan_id AND canonical_id IN (SELECT unnest($ids::TEXT[]))
GROUP BY canonical_id

-- name: read_adoptions
SELECT r.receipt_id, r.plan_id, r.run_id, r.canonical_id, r.revision, r.losers, r.figures, r.applied_at
FROM merge_receipts AS r
INNER JOIN memories AS m
    ON m.namespace_id = r.namespace_id AND m.id = r.canonical_id AND m.revision = r.revision
WHERE r.namespace_id = $namespace_id
    AND r.canonical_id IN (SELECT unnest($ids::TEXT[]))
    AND r.losers = '{}'
    AND r.released_at IS NULL
ORDER BY r.canonical_id

-- name: find_receipts
-- An adopted text is there as long as nobody has changed the memory since.
SELECT receipt_id, plan_id, run_id, canonical_id, revision, losers, figures, applied_at
FROM merge_receipts AS r
WHERE namespace_id = $namespace_id
    AND released_at IS NULL
    AND (losers <> '{}' OR EXISTS (
        SELECT 1
        FROM memories AS m
        WHERE m.namespace_id = r.namespace_id AND m.id = r.canonical_id AND m.revision = r.revision
    ))
    AND (
        list_has_any(json_keys(losers), $ids::TEXT[])
        OR run_id = $run_id
        OR applied_at >= $since
    )
ORDER BY position DESC

-- name: list_receipts
SELECT
    receipt_id, plan_id, run_id, canonical_id, revision, losers, figures, applied_at, released_at
FROM merge_receipts
WHERE namespace_id = $namespace_id AND canonical_id = $canonical_id
ORDER BY position

-- name: release_losers
UPDATE merge_receipts
SET losers = $losers, figures = $figures, released_at = $released_at
WHERE receipt_id = $receipt_id

-- name: drop_marks
DELETE FROM kept_apart
WHERE namespace_id = $namespace_id
    AND (memory_id, partner_id) IN (SELECT (i.memory_id, i.partner_id) FROM incoming AS i)

-- name: insert_marks
INSERT INTO kept_apart BY NAME
SELECT
    $namespace_id AS namespace_id, memory_id, partner_id, content_digest, partner_digest, $clock AS noted_at
FROM incoming

-- name: list_apart
SELECT m.id
FROM kept_apart AS k
INNER JOIN memories AS m
    ON m.namespace_id = k.namespace_id
    AND m.id = CASE WHEN k.memory_id = $memory_id THEN k.partner_id ELSE k.memory_id END
WHERE k.namespace_id = $namespace_id
    AND $memory_id IN (k.memory_id, k.partner_id)
    AND sha256(m.content) = CASE WHEN k.memory_id = $memory_id THEN k.partner_digest ELSE k.content_digest END
ORDER BY m.id

-- name: move_own_marks
UPDATE kept_apart
SET content_digest = sha256($after)
WHERE namespace_id = $namespace_id AND memory_id = $memory_id AND content_digest = sha256($before)

-- name: move_partner_marks
UPDATE kept_apart
SET partner_digest = sha256($after)
WHERE namespace_id = $namespace_id AND partner_id = $memory_id AND partner_digest = sha256($before)

-- name: drop_evidence
DELETE FROM evidence
WHERE namespace_id = $namespace_id AND memory_id = $memory_id AND since_revision > $revision
