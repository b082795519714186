-- name: list_old_receipts
SELECT receipt_id
FROM refresh_receipts
WHERE verified_at < $before AND receipt_id NOT IN (
    SELECT receipt_id FROM partitions WHERE receipt_id IS NOT NULL
)
ORDER BY receipt_id
LIMIT $limit

-- name: list_old_publications
-- What was collected and whose receipts may be gone; its rows are in no table any more.
SELECT publication_id
FROM publications
WHERE phase = 'collected' AND coalesce(ended_at, verified_at, staged_at) < $before
ORDER BY publication_id
LIMIT $limit

-- name: list_old_apply_receipts
-- A run that is still at work counts and reads its own.
SELECT receipt_key
FROM apply_receipts
WHERE applied_at < $before AND run_id NOT IN (SELECT run_id FROM runs WHERE outcome = 'running')
ORDER BY receipt_key
LIMIT $limit

-- name: list_old_plans
-- An applied plan says what became of each memory: it stays as long as its receipts.
SELECT plan_id
FROM plans
WHERE created_at < $before
    AND plan_id NOT IN (SELECT plan_id FROM apply_receipts)
    AND plan_id NOT IN (SELECT plan_id FROM runs WHERE outcome = 'running' AND plan_id IS NOT NULL)
ORDER BY plan_id
LIMIT $limit

-- name: list_old_runs
-- The newest run of a job and namespace, and its newest success, say what is due.
WITH newest AS (
    SELECT run_id
    FROM runs
    QUALIFY row_number() OVER (PARTITION BY namespace_id, job ORDER BY started_at DESC, run_id) = 1
    UNION ALL
    SELECT run_id
    FROM runs
    WHERE outcome IN ('applied', 'planned', 'unchanged', 'partial')
    QUALIFY row_number() OVER (PARTITION BY namespace_id, job ORDER BY started_at DESC, run_id) = 1
)

SELECT run_id
FROM runs
WHERE started_at < $before AND outcome <> 'running' AND run_id NOT IN (SELECT run_id FROM newest)
ORDER BY run_id
LIMIT $limit

-- name: delete_receipts
DELETE FROM refresh_receipts WHERE receipt_id IN (SELECT unnest($ids::TEXT[]))

-- name: delete_publications
DELETE FROM publications WHERE publication_id IN (SELECT unnest($ids::TEXT[]))

-- name: delete_apply_receipts
DELETE FROM apply_receipts WHERE receipt_key IN (SELECT unnest($ids::TEXT[]))

-- name: delete_pairs
DELETE FROM plan_pairs WHERE plan_id IN (SELECT unnest($ids::TEXT[]))

-- name: delete_decisions
DELETE FROM decisions WHERE plan_id IN (SELECT unnest($ids::TEXT[]))

-- name: delete_plans
DELETE FROM plans WHERE plan_id IN (SELECT unnest($ids::TEXT[]))

-- name: delete_runs
DELETE FROM runs WHERE run_id IN (SELECT unnest($ids::TEXT[]))

-- name: count_terms
SELECT
    count(*) AS held,
    count(*) FILTER (
        NOT EXISTS (
            SELECT 1
            FROM memories AS m
            WHERE m.namespace_id = t.namespace_id AND m.text_number = t.text_number
        )
    ) AS dead
FROM memory_terms AS t
