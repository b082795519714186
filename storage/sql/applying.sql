-- name: next_reason
-- Rows of this plan that this run has not dealt with: never applied, and not judged by this run.
SELECT reason, action
FROM decisions
WHERE plan_id = $plan_id
    AND reason <> 'carried'
    AND outcome IS DISTINCT FROM 'applied'
    AND run_id IS DISTINCT FROM $run_id
ORDER BY position
LIMIT 1

-- name: judge_batch
-- The next decisions of one reason, each compared with its memory as it is now (revision and decision facts).
CREATE OR REPLACE TEMP TABLE batch AS
WITH pending AS (
    SELECT
        position, memory_id, reason, action, current_revision, status, pinned, importance, salience,
        access_count, last_accessed_at, expires_at, tombstoned_at, figures
    FROM decisions
    WHERE plan_id = $plan_id
        AND reason = $reason
        AND outcome IS DISTINCT FROM 'applied'
        AND run_id IS DISTINCT FROM $run_id
    ORDER BY position
    LIMIT $size
),
compared AS (
    SELECT
        d.*,
        m.rowid AS row_no,
        coalesce(
            m.revision = d.current_revision
            AND CASE d.reason
                WHEN 'expired' THEN m.expires_at IS NOT DISTINCT FROM d.expires_at
                WHEN 'purge' THEN m.status = d.status AND m.tombstoned_at IS NOT DISTINCT FROM d.tombstoned_at
                ELSE m.status = d.status
                    AND m.pinned = d.pinned
                    AND m.importance = d.importance
                    AND m.salience IS NOT DISTINCT FROM d.salience
                    AND m.access_count = d.access_count
                    AND m.last_accessed_at IS NOT DISTINCT FROM d.last_accessed_at
                    AND m.expires_at IS NOT DISTINCT FROM d.expires_at
            END,
            false
        ) AS is_same
    FROM pending AS d
    LEFT JOIN memories AS m ON m.namespace_id = $namespace_id AND m.id = d.memory_id
)
SELECT
    *,
    CASE
        WHEN NOT is_same THEN 'changed_since_plan'
        WHEN $allowance::BIGINT IS NOT NULL
            AND count(*) FILTER (is_same) OVER (ORDER BY position) > $allowance THEN 'cap_already_met'
        ELSE 'applied'
    END AS outcome
FROM compared
ORDER BY position

-- name: count_batch
SELECT count(*), count(*) FILTER (outcome = 'applied') FROM batch

-- name: keep_tombstoned
INSERT INTO revisions BY NAME
SELECT
    m.namespace_id, m.id AS memory_id, m.revision, m.revision_kind, m.kind, m.status, m.content,
    m.confidence, m.importance, m.salience, m.tags, m.metadata, m.pinned, m.updated_at, m.expires_at
FROM memories AS m
INNER JOIN batch AS b ON b.row_no = m.rowid
WHERE b.outcome = 'applied'

-- name: tombstone_batch
UPDATE memories AS m
SET
    status = 'tombstoned', tombstoned_at = $now, revision = m.revision + 1,
    revision_kind = 'status_changed', updated_at = greatest($now, m.updated_at)
FROM batch AS b
WHERE m.rowid = b.row_no
    AND m.namespace_id = $namespace_id
    AND m.id = b.memory_id
    AND m.revision = b.current_revision
    AND m.status = b.status
    AND b.outcome = 'applied'

-- name: collect_removed
-- The heads that go, and the ancestors that go with them if nothing else changed.
CREATE OR REPLACE TEMP TABLE removed AS
SELECT memory_id, memory_id AS head_id, current_revision AS revision, false AS is_carried
FROM batch
WHERE outcome = 'applied'
UNION ALL
SELECT c.memory_id, c.head_id, c.current_revision, true
FROM decisions AS c
INNER JOIN batch AS b ON b.memory_id = c.head_id
INNER JOIN memories AS m ON m.namespace_id = $namespace_id AND m.id = c.memory_id
WHERE c.plan_id = $plan_id
    AND c.reason = 'carried'
    AND b.outcome = 'applied'
    AND m.status = 'superseded'
    AND m.revision = c.current_revision

-- name: keep_superseded
-- An ancestor stays while any row that is not going supersedes it; repeated until nothing changes.
DELETE FROM removed
WHERE is_carried AND EXISTS (
    SELECT 1
    FROM relations AS r
    WHERE r.namespace_id = $namespace_id
        AND r.kind = 'supersedes'
        AND r.until_revision IS NULL
        AND r.target_id = removed.memory_id
        AND r.memory_id NOT IN (SELECT g.memory_id FROM removed AS g WHERE g.memory_id IS NOT NULL)
)

-- name: move_decisions
-- A step that this apply caused is no difference: the pending decisions' revision moves along.
UPDATE decisions
SET current_revision = current_revision + 1
WHERE plan_id = $plan_id
    AND outcome IS DISTINCT FROM 'applied'
    AND memory_id IN (SELECT b.memory_id FROM neighbours AS b)

-- name: insert_tombstone_receipts
INSERT INTO apply_receipts BY NAME
SELECT
    'plan-' || sha256($plan_id || chr(0) || b.memory_id) AS receipt_key,
    $plan_id AS plan_id, $run_id AS run_id, $namespace_id AS namespace_id, b.memory_id, b.reason, b.action,
    b.current_revision + 1 AS revision, 0 AS revisions_deleted, b.figures, b.expires_at,
    $now AS tombstoned_at, $clock AS applied_at
FROM batch AS b
WHERE b.outcome = 'applied'

-- name: insert_removal_receipts
-- Before the rows go: how many revisions each head takes along, which ancestors go and which stay.
INSERT INTO apply_receipts BY NAME
WITH going AS (
    SELECT g.head_id, list(g.memory_id ORDER BY g.memory_id) FILTER (g.is_carried) AS carried, sum(1 + coalesce(h.earlier, 0))::BIGINT AS revisions_deleted
    FROM removed AS g
    LEFT JOIN (
        SELECT memory_id, count(*) AS earlier
        FROM revisions
        WHERE namespace_id = $namespace_id AND memory_id IN (SELECT o.memory_id FROM removed AS o)
        GROUP BY memory_id
    ) AS h ON h.memory_id = g.memory_id
    GROUP BY g.head_id
),
kept AS (
    SELECT c.head_id, list(c.memory_id ORDER BY c.memory_id) AS ancestors
    FROM decisions AS c
    INNER JOIN batch AS b ON b.memory_id = c.head_id AND b.outcome = 'applied'
    WHERE c.plan_id = $plan_id
        AND c.reason = 'carried'
        AND NOT EXISTS (SELECT 1 FROM removed AS g WHERE g.memory_id = c.memory_id)
    GROUP BY c.head_id
)
SELECT
    'plan-' || sha256($plan_id || chr(0) || b.memory_id) AS receipt_key,
    $plan_id AS plan_id, $run_id AS run_id, $namespace_id AS namespace_id, b.memory_id, b.reason, b.action,
    b.current_revision AS revision, n.revisions_deleted, to_json(n.carried)::TEXT AS carried,
    to_json(k.ancestors)::TEXT AS ancestors_kept, b.figures, b.expires_at, b.tombstoned_at,
    $clock AS applied_at
FROM batch AS b
INNER JOIN going AS n ON n.head_id = b.memory_id
LEFT JOIN kept AS k ON k.head_id = b.memory_id
WHERE b.outcome = 'applied'

-- name: record_outcomes
UPDATE decisions AS d
SET outcome = b.outcome, error = NULL, run_id = $run_id
FROM batch AS b
WHERE d.plan_id = $plan_id AND d.position = b.position AND d.reason <> 'carried'

-- name: record_failure
UPDATE decisions
SET outcome = 'failed', error = $error, run_id = $run_id
WHERE plan_id = $plan_id AND reason <> 'carried' AND position = (
    SELECT min(d.position)
    FROM decisions AS d
    WHERE d.plan_id = $plan_id
        AND d.reason <> 'carried'
        AND d.outcome IS DISTINCT FROM 'applied'
        AND d.run_id IS DISTINCT FROM $run_id
)
