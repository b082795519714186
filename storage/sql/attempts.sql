-- name: classify
-- What can be done for each member of a snapshot (incoming), the first that holds: a vector of this
-- run, a verified one of before, or why there is none; in the order in which misses are embedded.
SELECT
    i.memory_id, i.revision, i.content_digest, i.record_id,
    CASE
        WHEN i.is_pooled THEN 'pool'
        WHEN r.memory_id IS NOT NULL THEN 'reuse'
        WHEN e.state IN ('quarantined', 'permanent') THEN e.state
        WHEN e.state = 'failed' AND e.next_attempt_at > $clock THEN 'waiting'
        ELSE 'miss'
    END AS class,
    coalesce(e.state = 'suspect', false) AS is_suspect,
    coalesce(e.attempts, 0) AS attempts
FROM incoming AS i
LEFT JOIN publication_rows AS r
    ON r.publication_id = $publication_id
    AND r.memory_id = i.memory_id
    AND r.content_digest = i.content_digest
    AND (r.revision = i.revision OR NOT $by_revision)
LEFT JOIN embedding_attempts AS e ON e.partition = $partition AND e.record_id = i.record_id
ORDER BY attempts, i.created_at, i.memory_id

-- name: has_due
SELECT count(*) > 0
FROM embedding_attempts
WHERE partition = $partition
    AND (state = 'suspect' OR (state = 'failed' AND next_attempt_at <= $clock))

-- name: add_markers
INSERT INTO embedding_attempts (partition, record_id, state, attempts, crashes, changed_at)
SELECT $partition, i.record_id, 'new', 0, 0, $clock
FROM (SELECT unnest($ids::TEXT[]) AS record_id) AS i
WHERE NOT EXISTS (
    SELECT 1 FROM embedding_attempts AS e WHERE e.partition = $partition AND e.record_id = i.record_id
)

-- name: set_markers
UPDATE embedding_attempts
SET in_flight = $lease_fence
WHERE partition = $partition AND record_id IN (SELECT unnest($ids::TEXT[]))

-- name: clear_markers
UPDATE embedding_attempts
SET in_flight = NULL
WHERE partition = $partition AND in_flight = $lease_fence

-- name: forget_unmarked
DELETE FROM embedding_attempts WHERE partition = $partition AND state = 'new' AND in_flight IS NULL

-- name: count_crashes
-- A marker of a lower fence: the process died while that row was with the embedder.
UPDATE embedding_attempts
SET
    crashes = crashes + 1, in_flight = NULL, changed_at = $clock,
    state = CASE WHEN crashes + 1 >= $limit THEN 'quarantined' ELSE 'suspect' END
WHERE partition = $partition AND in_flight < $lease_fence

-- name: add_failures
INSERT INTO embedding_attempts (partition, record_id, state, attempts, crashes, changed_at)
SELECT $partition, i.record_id, 'new', 0, 0, $clock
FROM incoming AS i
WHERE NOT EXISTS (
    SELECT 1 FROM embedding_attempts AS e WHERE e.partition = $partition AND e.record_id = i.record_id
)

-- name: record_failures
UPDATE embedding_attempts
SET
    attempts = attempts + 1, reason = i.reason, in_flight = NULL, changed_at = $clock,
    state = CASE WHEN i.is_permanent THEN 'permanent' ELSE 'failed' END,
    next_attempt_at = $clock + to_microseconds((1000000 * least($base_s * 2.0 ** attempts, $cap_s))::BIGINT)
FROM incoming AS i
WHERE embedding_attempts.partition = $partition AND embedding_attempts.record_id = i.record_id

-- name: forget_embedded
DELETE FROM embedding_attempts
WHERE partition = $partition AND record_id IN (SELECT record_id FROM incoming)

-- name: forget_departed
DELETE FROM embedding_attempts
WHERE partition = $partition
    AND record_id NOT IN (SELECT record_id FROM incoming)
    AND (state <> 'quarantined' OR changed_at < $before)

-- name: has_attempts
SELECT count(*) > 0 FROM embedding_attempts WHERE partition = $partition

-- name: reset_attempts
DELETE FROM embedding_attempts
WHERE partition = $partition AND state IN ('permanent', 'quarantined')
