-- What became of clusters that a refiner was asked about; a digest is that of the members' ids, kind
-- and contents, so an edited cluster is another one. refined: candidate_id is what was made of it.
CREATE TABLE refiner_attempts (
    namespace_id INTEGER NOT NULL,
    cluster_digest TEXT NOT NULL,
    member_ids TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('failed', 'permanent', 'refined')),
    reason TEXT,
    failed_runs BIGINT NOT NULL,
    next_attempt_at TIMESTAMPTZ,
    candidate_id TEXT,
    changed_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (namespace_id, cluster_digest)
);
