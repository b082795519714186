-- name: list_runs_of
SELECT
    run_id, plan_id, job, tenant, principal, scope, outcome, code, error, found, applied, skipped, failed, figures
FROM run_history
WHERE flow_run_id = $flow_run_id AND outcome <> 'running'
ORDER BY started_at, run_id
