-- name: read_epoch
SELECT epoch, owner_key
FROM epochs
WHERE namespace_id = $namespace_id AND job = $job
ORDER BY epoch DESC
LIMIT 1

-- name: close_epoch
UPDATE epochs
SET closed_at = $clock
WHERE namespace_id = $namespace_id AND job = $job AND closed_at IS NULL

-- name: open_epoch
INSERT INTO epochs (namespace_id, job, epoch, owner_key, opened_at)
VALUES ($namespace_id, $job, $epoch, $owner_key, $clock)

-- name: assign_run
UPDATE runs SET epoch = $epoch WHERE run_id = $run_id

-- name: read_totals
-- Cumulative figures of an epoch; every sum stops at the largest BIGINT.
WITH told AS (
    SELECT
        outcome, applied, sequence, date_diff('millisecond', started_at, ended_at) AS elapsed_ms
    FROM runs
    WHERE namespace_id = $namespace_id AND job = $job AND epoch = $epoch AND outcome <> 'running'
)

SELECT
    count(sequence) AS attempted_runs,
    count(*) FILTER (outcome IN ('applied', 'planned', 'partial', 'unchanged')) AS successful_runs,
    count(*) FILTER (outcome = 'failed') AS failed_runs,
    count(*) FILTER (starts_with(outcome, 'skipped')) AS skipped_runs,
    count(*) FILTER (outcome = 'refused') AS refused_runs,
    count(*) FILTER (outcome = 'abandoned') AS abandoned_runs,
    least(coalesce(sum(applied) FILTER (sequence IS NOT NULL), 0), 9223372036854775807)::BIGINT
        AS total_affected_items,
    coalesce(arg_max(applied, sequence), 0) AS last_affected_items,
    least(coalesce(sum(elapsed_ms) FILTER (sequence IS NOT NULL), 0), 9223372036854775807)::BIGINT
        AS total_elapsed_ms,
    coalesce(max(elapsed_ms) FILTER (sequence IS NOT NULL), 0) AS max_elapsed_ms
FROM told

-- name: read_counters
WITH told AS (
    SELECT figures, unnest(json_keys(figures)) AS name
    FROM runs
    WHERE namespace_id = $namespace_id AND job = $job AND epoch = $epoch AND sequence IS NOT NULL
)

SELECT
    name,
    least(sum(json_extract_string(figures, name)::HUGEINT), 9223372036854775807)::BIGINT AS total
FROM told
GROUP BY name
ORDER BY name

-- name: list_recent
SELECT
    sequence, outcome, code, trigger, started_at, ended_at, found, applied, failed, skipped, figures,
    date_diff('millisecond', started_at, ended_at) AS elapsed_ms
FROM runs
WHERE namespace_id = $namespace_id AND job = $job AND epoch = $epoch AND sequence IS NOT NULL
ORDER BY sequence DESC
LIMIT $limit

-- name: list_epochs
SELECT epoch, opened_at, closed_at
FROM epochs
WHERE namespace_id = $namespace_id AND job = $job
ORDER BY epoch
