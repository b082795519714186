-- name: list_pending
-- The next losers, compared with what is stored now: text, status and expiry; reads are no difference.
SELECT
    d.position, d.memory_id, d.head_id,
    coalesce(
        m.revision = d.current_revision AND m.status = d.status
        AND m.expires_at IS NOT DISTINCT FROM d.expires_at,
        false
    ) AS is_same,
    coalesce(
        c.revision = d.head_revision AND c.status = d.status
        AND c.expires_at IS NOT DISTINCT FROM d.expires_at,
        false
    ) AS is_canonical_same
FROM decisions AS d
LEFT JOIN memories AS m ON m.namespace_id = $namespace_id AND m.id = d.memory_id
LEFT JOIN memories AS c ON c.namespace_id = $namespace_id AND c.id = d.head_id
WHERE d.plan_id = $plan_id
    AND d.outcome IS DISTINCT FROM 'applied'
    AND d.run_id IS DISTINCT FROM $run_id
ORDER BY d.position
LIMIT $size

-- name: insert_receipts
INSERT INTO apply_receipts BY NAME
SELECT
    'plan-' || sha256($plan_id || chr(0) || d.memory_id) AS receipt_key,
    $plan_id AS plan_id, $run_id AS run_id, $namespace_id AS namespace_id, d.memory_id, d.reason, d.action,
    i.revision, 0 AS revisions_deleted, d.figures, d.expires_at, $clock AS applied_at
FROM decisions AS d
INNER JOIN incoming AS i ON i.position = d.position
WHERE d.plan_id = $plan_id AND i.outcome = 'applied'

-- name: record_outcomes
UPDATE decisions AS d
SET outcome = i.outcome, error = NULL, run_id = $run_id
FROM incoming AS i
WHERE d.plan_id = $plan_id AND d.position = i.position

-- name: move_losers
UPDATE decisions AS d
SET current_revision = d.current_revision + i.steps
FROM incoming AS i
WHERE d.plan_id = $plan_id AND d.memory_id = i.memory_id AND d.outcome IS DISTINCT FROM 'applied'

-- name: move_canonicals
UPDATE decisions AS d
SET head_revision = d.head_revision + i.steps
FROM incoming AS i
WHERE d.plan_id = $plan_id AND d.head_id = i.memory_id AND d.outcome IS DISTINCT FROM 'applied'
