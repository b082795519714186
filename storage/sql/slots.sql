-- name: read_activation
SELECT activated_at
FROM activations
WHERE namespace_id = $namespace_id AND job = $job AND interval_s = $interval_s

-- name: set_activation
UPDATE activations
SET interval_s = $interval_s, activated_at = $clock
WHERE namespace_id = $namespace_id AND job = $job

-- name: end_activations
DELETE FROM activations WHERE job NOT IN (SELECT unnest($jobs::TEXT[]))

-- name: insert_activation
INSERT INTO activations (namespace_id, job, interval_s, activated_at)
VALUES ($namespace_id, $job, $interval_s, $clock)

-- name: read_last_settled
SELECT max(started_at)
FROM runs
WHERE namespace_id = $namespace_id
    AND job = $job
    AND outcome IN ('applied', 'planned', 'partial', 'unchanged', 'failed')
    AND ($flow_run_id::TEXT IS NULL OR flow_run_id IS DISTINCT FROM $flow_run_id)

-- name: has_settled_day
SELECT count(*) > 0
FROM runs
WHERE namespace_id = $namespace_id
    AND job = $job
    AND slot_day = $slot_day
    AND trigger = 'schedule'
    AND outcome IN ('applied', 'planned', 'partial', 'unchanged', 'failed')
    AND ($flow_run_id::TEXT IS NULL OR flow_run_id IS DISTINCT FROM $flow_run_id)
