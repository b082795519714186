-- name: count_states
-- Disjoint lifecycle counters that add up to total.
SELECT
    n.namespace_id, s.total, s.active, s.candidate, s.superseded, s.conflicted, s.expired_pending, s.tombstoned
FROM memory_state($now) AS s
INNER JOIN namespaces AS n ON n.tenant = s.tenant AND n.principal = s.principal AND n.scope = s.scope
ORDER BY n.namespace_id

-- name: count_index
-- departed: vectors that are served of memories that are active no more. Rows that will never have a
-- vector are no backlog, but they stay visible.
WITH failures AS (
    SELECT
        s.namespace_id,
        count(*) FILTER (e.state = 'failed') AS retrying,
        count(*) FILTER (e.state = 'permanent') AS permanent,
        count(*) FILTER (e.state = 'quarantined') AS quarantined
    FROM serving AS s
    INNER JOIN embedding_attempts AS e ON e.partition = s.partition
    GROUP BY s.namespace_id
),

departures AS (
    SELECT s.namespace_id, count(*) AS departed
    FROM serving AS s
    INNER JOIN partitions AS p ON p.partition = s.partition AND p.phase = 'verified'
    INNER JOIN publication_rows AS r ON r.publication_id = p.publication_id
    WHERE NOT EXISTS (
        SELECT 1
        FROM memories AS m
        WHERE m.namespace_id = s.namespace_id AND m.id = r.memory_id AND m.status = 'active'
    )
    GROUP BY s.namespace_id
),

deferrals AS (
    SELECT s.namespace_id, c.deferred
    FROM serving AS s
    INNER JOIN partitions AS p ON p.partition = s.partition
    INNER JOIN refresh_receipts AS c ON c.receipt_id = p.receipt_id
)

SELECT
    i.namespace_id, i.active, i.embedded, i.stale, i.failed,
    greatest(i.active - i.embedded - coalesce(f.permanent, 0) - coalesce(f.quarantined, 0), 0) AS pending,
    coalesce(f.retrying, 0) AS retrying,
    coalesce(f.permanent, 0) AS permanent,
    coalesce(f.quarantined, 0) AS quarantined,
    d.deferred,
    coalesce(g.departed, 0) AS departed,
    i.namespace_id IN (SELECT namespace_id FROM serving) AS is_served
FROM index_coverage AS i
LEFT JOIN failures AS f ON f.namespace_id = i.namespace_id
LEFT JOIN departures AS g ON g.namespace_id = i.namespace_id
LEFT JOIN deferrals AS d ON d.namespace_id = i.namespace_id
ORDER BY i.namespace_id

-- name: count_ahead
-- Memories with a stored instant that has not come yet.
SELECT namespace_id, count(*)
FROM memories
WHERE greatest(
    created_at, updated_at, content_at, restored_at, last_accessed_at, tombstoned_at
) > $now
GROUP BY namespace_id
ORDER BY namespace_id

-- name: count_uncompared
-- Active memories whose text consolidation has not looked at yet.
SELECT m.namespace_id, count(*)
FROM memories AS m
WHERE m.status = 'active' AND NOT EXISTS (
    SELECT 1
    FROM duplicate_texts AS t
    WHERE t.namespace_id = m.namespace_id AND t.text_number = m.text_number
)
GROUP BY m.namespace_id
ORDER BY m.namespace_id

-- name: count_duplicates
-- What the last consolidation of each namespace found, and what it left of that.
SELECT namespace_id, found, found - applied AS remaining
FROM runs
WHERE job = 'consolidate' AND outcome IN ('applied', 'planned', 'partial', 'unchanged')
QUALIFY row_number() OVER (
    PARTITION BY namespace_id
    ORDER BY started_at DESC, sequence DESC NULLS LAST, run_id DESC
) = 1
ORDER BY namespace_id

-- name: read_costs
SELECT
    count(*) AS runs,
    coalesce(sum(json_extract_string(figures, 'embed_inputs')::BIGINT), 0)::BIGINT AS embedded,
    coalesce(sum(json_extract_string(figures, 'reuse_hits')::BIGINT), 0)::BIGINT AS reused,
    coalesce(sum(found - applied - failed), 0)::BIGINT AS skipped,
    coalesce(sum(json_extract_string(figures, 'provider_requests')::BIGINT), 0)::BIGINT AS provider_requests,
    coalesce(sum(json_extract_string(figures, 'provider_input_bytes')::BIGINT), 0)::BIGINT AS provider_input_bytes,
    coalesce(sum(date_diff('millisecond', started_at, ended_at)), 0)::BIGINT AS elapsed_ms
FROM runs
WHERE job = 'refresh'
    AND outcome IN ('applied', 'partial', 'unchanged', 'failed')
    AND started_at > $since
    AND ($namespace_id::INTEGER IS NULL OR namespace_id = $namespace_id)

-- name: read_jobs
-- The runs of each job, in all namespaces; counters are those of the current epochs. A namespace's
-- last word is its last run that was more than skipped; a job has an error as long as one of them is.
WITH epoch_now AS (
    SELECT namespace_id, job, max(epoch) AS epoch
    FROM epochs
    GROUP BY namespace_id, job
),

judged AS (
    SELECT
        r.job, r.namespace_id, r.outcome, r.code, r.applied, r.failed, r.started_at, r.ended_at, r.trigger,
        coalesce(r.epoch, 0) = coalesce(e.epoch, 0) AS is_current,
        r.outcome IN ('applied', 'planned', 'partial', 'unchanged') AS is_success,
        is_success OR r.outcome = 'failed' AS is_settled,
        NOT starts_with(r.outcome, 'skipped') AS is_told,
        r.outcome = 'running' AS is_open,
        is_open AND EXISTS (
            SELECT 1 FROM leases AS l WHERE l.holder = r.run_id AND l.expires_at > $clock
        ) AS is_at_work,
        row_number() OVER (
            PARTITION BY r.job
            ORDER BY r.started_at DESC, r.sequence DESC NULLS LAST, r.run_id DESC
        ) AS recency
    FROM runs AS r
    LEFT JOIN epoch_now AS e ON e.namespace_id = r.namespace_id AND e.job = r.job
),

last_words AS (
    SELECT job, min(recency) AS recency
    FROM judged
    WHERE is_told AND NOT is_open
    GROUP BY job, namespace_id
),

complaints AS (
    SELECT j.job, min_by(coalesce(j.code, j.outcome), j.recency) AS last_error
    FROM judged AS j
    INNER JOIN last_words AS w ON w.job = j.job AND w.recency = j.recency
    WHERE j.outcome IN ('failed', 'refused', 'abandoned')
    GROUP BY j.job
),

last_settled AS (
    SELECT job, namespace_id, min(recency) AS recency, max(started_at) AS started_at
    FROM judged
    WHERE is_settled
    GROUP BY job, namespace_id
),

left_over AS (
    SELECT s.job, sum(j.failed)::BIGINT AS failed_rows
    FROM last_settled AS s
    INNER JOIN judged AS j ON j.job = s.job AND j.recency = s.recency
    GROUP BY s.job
),

-- Where a job runs by itself: since its activation, or since a schedule first started it.
schedules AS (
    SELECT job, namespace_id, max(interval_s) AS interval_s, max(activated_at) AS activated_at
    FROM (
        SELECT job, namespace_id, interval_s, activated_at FROM activations
        UNION ALL
        SELECT job, namespace_id, NULL, NULL FROM judged WHERE trigger = 'schedule'
    )
    GROUP BY job, namespace_id
),

expected AS (
    SELECT
        c.job, max(c.interval_s) AS interval_s, min(coalesce(s.started_at, c.activated_at)) AS waited_since
    FROM schedules AS c
    LEFT JOIN last_settled AS s ON s.job = c.job AND s.namespace_id = c.namespace_id
    GROUP BY c.job
),

summed AS (
    SELECT
        job,
        min_by(outcome, recency) FILTER (NOT is_open) AS last_outcome,
        max(ended_at) FILTER (is_success) AS last_success,
        min_by(outcome, recency) AS last_state,
        bool_or(is_at_work) AS run_in_progress,
        bool_or(is_open AND NOT is_at_work) AS has_dead_run,
        count(*) FILTER (is_current AND is_success) AS successful_runs,
        count(*) FILTER (is_current AND outcome = 'failed') AS failed_runs,
        count(*) FILTER (is_current AND NOT is_told) AS skipped_runs,
        count(*) FILTER (is_current AND outcome = 'refused') AS refused_runs,
        count(*) FILTER (is_current AND outcome = 'abandoned') AS abandoned_runs,
        least(
            coalesce(sum(applied) FILTER (is_current AND is_settled), 0), 9223372036854775807
        )::BIGINT AS total_affected_items,
        min_by(applied, recency) FILTER (is_settled) AS last_affected_items,
        max(started_at) FILTER (is_told) AS last_started_at
    FROM judged
    GROUP BY job
)

SELECT
    coalesce(s.job, x.job) AS job, s.* EXCLUDE (job), c.last_error, l.failed_rows, x.interval_s, x.waited_since,
    x.job IS NOT NULL AS is_scheduled
FROM summed AS s
FULL JOIN expected AS x ON x.job = s.job
LEFT JOIN complaints AS c ON c.job = s.job
LEFT JOIN left_over AS l ON l.job = s.job
ORDER BY job

-- name: insert_figures
INSERT INTO health BY NAME
SELECT run_id, taken_at, namespace_id, subject, metric, value, label, threshold
FROM incoming

-- name: delete_old_figures
DELETE FROM health WHERE taken_at < $before

-- name: count_old_figures
SELECT count(*) FROM health WHERE taken_at < $before

-- name: read_sizes_before
-- How large the files were in the last snapshot that is that old.
WITH earlier AS (
    SELECT metric, value, taken_at
    FROM health
    WHERE namespace_id IS NULL AND subject = 'files' AND taken_at <= $before AND value IS NOT NULL
)

SELECT metric, max_by(value, taken_at)
FROM earlier
GROUP BY metric
ORDER BY metric

-- name: list_breaches
SELECT run_id, metric AS name, value, threshold
FROM health
WHERE subject = 'breaches' AND run_id IN (SELECT unnest($run_ids::TEXT[]))
ORDER BY run_id, metric

-- name: export_memories
-- What is known of each memory but what it says: no content, tags, metadata or relations.
SELECT
    n.tenant, n.principal, n.scope, m.id AS memory_id, m.revision, m.kind, m.status, m.importance, m.salience,
    m.confidence, m.pinned, m.access_count, m.created_at, m.updated_at, m.content_at, m.last_accessed_at,
    m.expires_at, m.restored_at, m.tombstoned_at
FROM memories AS m
INNER JOIN namespaces AS n ON n.namespace_id = m.namespace_id
WHERE m.namespace_id = $namespace_id
ORDER BY m.id

-- name: export_runs
SELECT
    run_id, job, tenant, principal, scope, mode, trigger, slot, plan_id, now, outcome, code, found, applied,
    skipped, failed, figures, started_at, ended_at, elapsed_ms
FROM run_history
ORDER BY started_at, run_id

-- name: export_decisions
SELECT
    d.plan_id, d.job, d.tenant, d.principal, d.scope, d.now, d.position, d.memory_id, d.reason, d.action,
    d.expected_revision, d.outcome, d.run_id, d.figures, d.head_id
FROM decision_history AS d
INNER JOIN plans AS p ON p.plan_id = d.plan_id
WHERE p.created_at >= $since
ORDER BY p.created_at, d.plan_id, d.position

-- name: export_pairs
SELECT
    q.plan_id, p.job, n.tenant, n.principal, n.scope, p.now, q.position, q.result, q.memory_id, q.partner_id,
    q.reasons, q.figures
FROM plan_pairs AS q
INNER JOIN plans AS p ON p.plan_id = q.plan_id
INNER JOIN namespaces AS n ON n.namespace_id = p.namespace_id
WHERE p.created_at >= $since
ORDER BY p.created_at, q.plan_id, q.position

-- name: export_health
SELECT
    h.run_id, h.taken_at, n.tenant, n.principal, n.scope, h.subject, h.metric, h.value, h.label, h.threshold
FROM health AS h
LEFT JOIN namespaces AS n ON n.namespace_id = h.namespace_id
ORDER BY h.taken_at, h.run_id, n.tenant NULLS FIRST, n.principal, n.scope, h.subject, h.metric
