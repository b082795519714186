-- name: has_plan
SELECT count(*) > 0 FROM plans WHERE plan_id = $plan_id

-- name: insert_plan
INSERT INTO plans (
    plan_id, job, namespace_id, now, policy, batch_size, planned, carried, judged, visible, counters,
    warnings, profile, created_at
)
VALUES (
    $plan_id, $job, $namespace_id, $now, $policy, $batch_size, $planned, $carried, $judged, $visible,
    $counters, $warnings, $profile, $clock
)

-- name: insert_decisions
INSERT INTO decisions BY NAME
SELECT
    $plan_id AS plan_id, position, memory_id, reason, action, expected_revision,
    expected_revision AS current_revision, status, pinned, importance, salience, access_count,
    last_accessed_at, expires_at, tombstoned_at, head_id, figures
FROM incoming

-- name: insert_merge_decisions
INSERT INTO decisions BY NAME
SELECT
    $plan_id AS plan_id, position, memory_id, reason, 'merge' AS action, expected_revision,
    expected_revision AS current_revision, status, pinned, importance, salience, access_count,
    last_accessed_at, expires_at, tombstoned_at, head_id, head_revision, figures
FROM incoming

-- name: insert_pairs
INSERT INTO plan_pairs BY NAME
SELECT $plan_id AS plan_id, position, result, memory_id, partner_id, reasons, figures
FROM incoming

-- name: read_pairs
SELECT result, memory_id AS id, partner_id, reasons, figures
FROM plan_pairs
WHERE plan_id = $plan_id
ORDER BY position
LIMIT $limit

-- name: read_plan
SELECT
    plan_id, job, namespace_id, now, policy, batch_size, planned, carried, judged, visible, counters,
    warnings, profile, created_at
FROM plans
WHERE plan_id = $plan_id

-- name: read_decisions
-- In the order that people read: reasons in the order of apply, then id; heads with what they carry.
WITH carried AS (
    SELECT head_id, list(memory_id ORDER BY memory_id) AS carries
    FROM decisions
    WHERE plan_id = $plan_id AND reason = 'carried'
    GROUP BY head_id
)
SELECT
    d.memory_id AS id, d.reason, d.action, d.expected_revision,
    CASE WHEN d.action IN ('delete', 'purge') THEN coalesce(c.carries, []) END AS carries,
    d.figures, d.outcome, d.error, d.run_id
FROM decisions AS d
LEFT JOIN carried AS c ON c.head_id = d.memory_id
WHERE d.plan_id = $plan_id AND d.reason <> 'carried'
ORDER BY min(d.position) OVER (PARTITION BY d.reason), d.memory_id
LIMIT $limit

-- name: count_reasons
SELECT reason, count(*)
FROM decisions
WHERE plan_id = $plan_id AND reason <> 'carried'
GROUP BY reason
ORDER BY min(position)

-- name: count_outcomes
-- What one run made of a plan: rows that another run applied are already_applied for it.
SELECT
    CASE WHEN outcome = 'applied' AND run_id <> $run_id THEN 'already_applied' ELSE outcome END AS result,
    count(*)
FROM decisions
WHERE plan_id = $plan_id AND reason <> 'carried' AND outcome IS NOT NULL
    AND (run_id = $run_id OR outcome = 'applied')
GROUP BY result
ORDER BY result

-- name: read_outcomes
SELECT
    memory_id,
    CASE WHEN outcome = 'applied' AND run_id <> $run_id THEN 'already_applied' ELSE outcome END AS result
FROM decisions
WHERE plan_id = $plan_id AND reason <> 'carried' AND outcome IS NOT NULL
ORDER BY position

-- name: has_receipt
SELECT count(*) > 0 FROM apply_receipts WHERE plan_id = $plan_id

-- name: read_receipts
SELECT
    plan_id, run_id, memory_id, reason, action, revision, revisions_deleted, carried, ancestors_kept,
    figures, expires_at, tombstoned_at, applied_at
FROM apply_receipts
WHERE plan_id = $plan_id
ORDER BY memory_id

-- name: diff_plan
-- What became of the memories of a plan since: which decision facts differ now.
WITH compared AS (
    SELECT
        d.position, d.memory_id, d.reason, d.outcome, m.id IS NULL AS is_gone,
        list_filter([
            CASE WHEN m.revision <> d.current_revision THEN 'revision' END,
            CASE WHEN m.status <> d.status THEN 'status' END,
            CASE WHEN m.pinned <> d.pinned THEN 'pinned' END,
            CASE WHEN m.importance <> d.importance THEN 'importance' END,
            CASE WHEN m.salience IS DISTINCT FROM d.salience THEN 'salience' END,
            CASE WHEN m.access_count <> d.access_count THEN 'access_count' END,
            CASE WHEN m.last_accessed_at IS DISTINCT FROM d.last_accessed_at THEN 'last_accessed_at' END,
            CASE WHEN m.expires_at IS DISTINCT FROM d.expires_at THEN 'expires_at' END,
            CASE WHEN m.tombstoned_at IS DISTINCT FROM d.tombstoned_at THEN 'tombstoned_at' END
        ], lambda field: field IS NOT NULL) AS differing
    FROM decisions AS d
    INNER JOIN plans AS p ON p.plan_id = d.plan_id
    LEFT JOIN memories AS m ON m.namespace_id = p.namespace_id AND m.id = d.memory_id
    WHERE d.plan_id = $plan_id AND d.reason <> 'carried'
)
SELECT
    memory_id AS id, reason, outcome,
    CASE
        WHEN outcome = 'applied' THEN 'applied'
        WHEN is_gone THEN 'gone'
        WHEN len(differing) > 0 THEN 'changed'
        ELSE 'same'
    END AS state,
    CASE WHEN is_gone OR outcome = 'applied' THEN [] ELSE differing END AS changes
FROM compared
ORDER BY position
