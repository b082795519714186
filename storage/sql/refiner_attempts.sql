-- name: read_attempts
SELECT cluster_digest, state, failed_runs, next_attempt_at
FROM refiner_attempts
WHERE namespace_id = $namespace_id AND cluster_digest IN (SELECT unnest($digests::TEXT[]))

-- name: add_attempt
INSERT INTO refiner_attempts (namespace_id, cluster_digest, member_ids, state, failed_runs, changed_at)
SELECT $namespace_id, $digest, $member_ids, 'failed', 0, $clock
WHERE NOT EXISTS (
    SELECT 1 FROM refiner_attempts WHERE namespace_id = $namespace_id AND cluster_digest = $digest
)

-- name: record_failure
-- The last failure is for good; what another run has refined meanwhile stays refined.
UPDATE refiner_attempts
SET
    failed_runs = failed_runs + 1, reason = $reason, changed_at = $clock,
    state = CASE WHEN failed_runs + 1 >= $max_attempts THEN 'permanent' ELSE 'failed' END,
    next_attempt_at = CASE
        WHEN failed_runs + 1 < $max_attempts
            THEN $clock + to_microseconds((1000000 * least($base_s * 2.0 ** failed_runs, $cap_s))::BIGINT)
    END
WHERE namespace_id = $namespace_id AND cluster_digest = $digest AND state <> 'refined'

-- name: record_candidate
UPDATE refiner_attempts
SET state = 'refined', reason = NULL, next_attempt_at = NULL, candidate_id = $candidate_id, changed_at = $clock
WHERE namespace_id = $namespace_id AND cluster_digest = $digest
