-- name: insert_run
INSERT INTO runs (
    run_id, job, namespace_id, mode, trigger, slot, slot_day, flow_run_id, plan_id, now, lease_fence, outcome, code,
    error, found, applied, skipped, failed, figures, started_at, ended_at, epoch
)
VALUES (
    $run_id, $job, $namespace_id, $mode, $trigger, $slot, $slot_day, $flow_run_id, $plan_id, $now, $lease_fence,
    $outcome, $code, $error, $found, $applied, $skipped, $failed, $figures, $started_at, $ended_at,
    (SELECT max(epoch) FROM epochs AS e WHERE e.namespace_id = $namespace_id AND e.job = $job)
)

-- name: finish_run
UPDATE runs
SET
    plan_id = $plan_id, outcome = $outcome, code = $code, error = $error, found = $found,
    applied = $applied, skipped = $skipped, failed = $failed, figures = $figures, ended_at = $ended_at,
    sequence = CASE
        WHEN $outcome IN ('applied', 'planned', 'partial', 'unchanged', 'failed') THEN (
            SELECT coalesce(max(o.sequence), 0) + 1
            FROM runs AS o
            WHERE o.namespace_id = runs.namespace_id AND o.job = runs.job AND o.epoch = runs.epoch
        )
    END
WHERE run_id = $run_id AND outcome = 'running'

-- name: set_run_plan
UPDATE runs SET plan_id = $plan_id WHERE run_id = $run_id AND outcome = 'running'

-- name: abandon_runs
-- What a killed run left: its receipts say what it did; the rest counts for the run that finds it.
UPDATE runs
SET
    outcome = 'abandoned', code = 'process_ended', ended_at = $clock, settled_by = $run_id,
    found = (SELECT count(*) FROM apply_receipts AS a WHERE a.run_id = runs.run_id),
    applied = (SELECT count(*) FROM apply_receipts AS a WHERE a.run_id = runs.run_id)
WHERE namespace_id = $namespace_id AND job = $job AND outcome = 'running' AND run_id <> $run_id

-- name: is_running
SELECT count(*) > 0 FROM runs WHERE run_id = $run_id AND outcome = 'running'

-- name: list_stale
SELECT r.run_id, r.job, r.started_at, r.flow_run_id
FROM runs AS r
WHERE r.outcome = 'running' AND NOT EXISTS (
    SELECT 1 FROM leases AS l WHERE l.holder = r.run_id AND l.expires_at > $clock
)
ORDER BY r.started_at, r.run_id

-- name: abandon_run
UPDATE runs
SET
    outcome = 'abandoned', code = 'process_ended', ended_at = $clock,
    found = (SELECT count(*) FROM apply_receipts AS a WHERE a.run_id = runs.run_id),
    applied = (SELECT count(*) FROM apply_receipts AS a WHERE a.run_id = runs.run_id)
WHERE run_id = $run_id AND outcome = 'running' AND NOT EXISTS (
    SELECT 1 FROM leases AS l WHERE l.holder = runs.run_id AND l.expires_at > $clock
)

-- name: trace_flow_runs
SELECT
    r.flow_run_id,
    bool_or(r.outcome = 'running' AND coalesce(l.expires_at > $clock, false)) AS is_alive,
    max(coalesce(r.ended_at, l.expires_at, r.started_at)) AS last_seen_at
FROM runs AS r
LEFT JOIN leases AS l ON l.holder = r.run_id
WHERE r.flow_run_id IN (SELECT unnest($ids::TEXT[]))
GROUP BY r.flow_run_id
ORDER BY r.flow_run_id

-- name: list_runs
SELECT
    run_id, plan_id, job, tenant, principal, scope, mode, trigger, now, outcome, code, error, found, applied,
    skipped, failed, figures, started_at, ended_at, elapsed_ms
FROM run_history
ORDER BY started_at DESC, run_id
LIMIT $limit

-- name: read_run
SELECT
    run_id, plan_id, job, tenant, principal, scope, mode, trigger, now, outcome, code, error, found, applied,
    skipped, failed, figures, started_at, ended_at, elapsed_ms
FROM run_history
WHERE run_id = $run_id

-- name: count_settled
SELECT count(*) FROM runs WHERE settled_by = $run_id

-- name: read_last_code
SELECT code
FROM runs
WHERE namespace_id = $namespace_id
    AND job = $job
    AND outcome NOT IN ('running', 'skipped_busy', 'skipped_missed')
ORDER BY started_at DESC, run_id DESC
LIMIT 1
