-- The truth about the vector index: what is served, why, and what failed. Vectors are in Lance only.
-- Rows that runs compete for hold scalars and are changed by plain UPDATE.

-- One row per namespace and serving generation; never deleted. `revision` moves with every flip,
-- emptying and invalidation.
CREATE TABLE partitions (
    partition TEXT PRIMARY KEY,
    namespace_id INTEGER NOT NULL,
    generation TEXT NOT NULL,
    binding TEXT NOT NULL,
    embedding_digest TEXT NOT NULL,
    pointer_uuid TEXT NOT NULL,
    revision BIGINT NOT NULL CHECK (revision >= 0),
    phase TEXT NOT NULL CHECK (phase IN ('empty', 'published', 'verified')),
    publication_id TEXT,
    receipt_id TEXT,
    record_count BIGINT NOT NULL,
    byte_count BIGINT NOT NULL
);

-- One row for all partitions: the revision that cas_scope=index compares instead of theirs.
CREATE TABLE index_pointer (
    pointer_uuid TEXT PRIMARY KEY,
    revision BIGINT NOT NULL
);

CREATE TABLE publications (
    publication_id TEXT PRIMARY KEY,
    partition TEXT NOT NULL,
    namespace_id INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    vector_table TEXT NOT NULL,
    record_profile TEXT NOT NULL,
    phase TEXT NOT NULL CHECK (phase IN (
        'staging', 'staged', 'published', 'verified', 'superseded', 'abandoned', 'invalidated', 'collecting',
        'collected'
    )),
    lease_fence BIGINT NOT NULL,
    base_revision BIGINT NOT NULL,
    revision BIGINT,
    index_history TEXT NOT NULL,
    store_history TEXT NOT NULL,
    snapshot_digest TEXT NOT NULL,
    snapshot_bytes BIGINT NOT NULL,
    source_token BIGINT,
    counts TEXT NOT NULL,
    record_count BIGINT NOT NULL,
    byte_count BIGINT NOT NULL,
    set_digest TEXT NOT NULL,
    staged_at TIMESTAMPTZ NOT NULL,
    verified_at TIMESTAMPTZ,
    ended_at TIMESTAMPTZ
);

-- What a publication holds of each memory; kept for the ones that are served or can be reused.
CREATE TABLE publication_rows (
    publication_id TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    content_digest TEXT NOT NULL
);

-- The generation that readers of a namespace use.
CREATE TABLE serving (
    namespace_id INTEGER PRIMARY KEY,
    partition TEXT NOT NULL,
    switched_at TIMESTAMPTZ NOT NULL
);

-- Proof of a verified run, free of content and ids of memories.
CREATE TABLE refresh_receipts (
    receipt_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    namespace_id INTEGER NOT NULL,
    partition TEXT NOT NULL,
    profile TEXT NOT NULL,
    snapshot_profile TEXT NOT NULL,
    snapshot_digest TEXT NOT NULL,
    snapshot_bytes BIGINT NOT NULL,
    source_token BIGINT,
    store_history TEXT NOT NULL,
    binding_schema TEXT NOT NULL,
    generation TEXT NOT NULL,
    record_profile TEXT NOT NULL,
    cas_scope TEXT NOT NULL,
    publication_id TEXT,
    active_count BIGINT NOT NULL,
    published BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    permanent BIGINT NOT NULL,
    quarantined BIGINT NOT NULL,
    deferred BIGINT NOT NULL,
    mutation_consistency TEXT NOT NULL,
    index_history TEXT NOT NULL,
    index_revision BIGINT NOT NULL,
    partition_count BIGINT NOT NULL,
    record_count BIGINT NOT NULL,
    byte_count BIGINT NOT NULL,
    verified_at TIMESTAMPTZ NOT NULL
);

-- Failure history of a vector row that could not be made. in_flight: the fence of the run whose
-- batch holds it right now.
CREATE TABLE embedding_attempts (
    partition TEXT NOT NULL,
    record_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('new', 'failed', 'permanent', 'suspect', 'quarantined')),
    reason TEXT,
    attempts BIGINT NOT NULL,
    crashes BIGINT NOT NULL,
    in_flight BIGINT,
    next_attempt_at TIMESTAMPTZ,
    changed_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (partition, record_id)
);

-- An ownership epoch says which runs of a job belong together.
CREATE TABLE epochs (
    namespace_id INTEGER NOT NULL,
    job TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    owner_key TEXT NOT NULL,
    opened_at TIMESTAMPTZ NOT NULL,
    closed_at TIMESTAMPTZ,
    PRIMARY KEY (namespace_id, job, epoch)
);

ALTER TABLE runs ADD COLUMN figures TEXT;

ALTER TABLE runs ADD COLUMN epoch BIGINT;

-- Counts the attempts of an epoch; runs that were skipped, refused or abandoned have none.
ALTER TABLE runs ADD COLUMN sequence BIGINT;

ALTER TABLE runs ADD COLUMN settled_by TEXT;

CREATE OR REPLACE VIEW run_history AS
SELECT
    r.run_id, r.job, n.tenant, n.principal, n.scope, r.mode, r.trigger, r.flow_run_id, r.plan_id, r.now,
    r.outcome, r.code, r.error, r.found, r.applied, r.skipped, r.failed, r.figures, r.started_at, r.ended_at,
    date_diff('millisecond', r.started_at, r.ended_at) AS elapsed_ms
FROM runs AS r
INNER JOIN namespaces AS n ON n.namespace_id = r.namespace_id;

-- Per namespace: how many active memories the served publication covers with their current content.
CREATE VIEW index_coverage AS
WITH served AS (
    SELECT s.namespace_id, p.partition, p.publication_id, p.generation
    FROM serving AS s
    INNER JOIN partitions AS p ON p.partition = s.partition
    WHERE p.phase = 'verified'
),

active AS (
    SELECT namespace_id, id, 'sha256:' || sha256(content) AS content_digest
    FROM memories
    WHERE status = 'active'
),

judged AS (
    SELECT
        a.namespace_id,
        coalesce(r.content_digest = a.content_digest, false) AS is_embedded,
        r.memory_id IS NOT NULL AS is_served
    FROM active AS a
    LEFT JOIN served AS s ON s.namespace_id = a.namespace_id
    LEFT JOIN publication_rows AS r ON r.publication_id = s.publication_id AND r.memory_id = a.id
)

SELECT
    n.namespace_id, n.tenant, n.principal, n.scope,
    count(j.namespace_id) AS active,
    count(j.namespace_id) FILTER (j.is_embedded) AS embedded,
    count(j.namespace_id) FILTER (j.is_served AND NOT j.is_embedded) AS stale,
    (
        SELECT count(*)
        FROM embedding_attempts AS e
        INNER JOIN served AS s ON s.partition = e.partition
        WHERE s.namespace_id = n.namespace_id AND e.state IN ('failed', 'permanent', 'quarantined')
    ) AS failed
FROM namespaces AS n
LEFT JOIN judged AS j ON j.namespace_id = n.namespace_id
GROUP BY n.namespace_id, n.tenant, n.principal, n.scope;
