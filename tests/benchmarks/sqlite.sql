-- name: create_tables
-- The columns of `memories`; instants are integers of UTC microseconds, booleans 0 and 1.
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE memories (
    namespace_id INTEGER NOT NULL,
    id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    revision_kind TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    content TEXT NOT NULL,
    confidence REAL NOT NULL,
    importance REAL NOT NULL,
    salience REAL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    marks TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    content_at INTEGER NOT NULL,
    restored_at INTEGER,
    tombstoned_at INTEGER,
    last_accessed_at INTEGER,
    access_count INTEGER NOT NULL,
    origin TEXT NOT NULL,
    origin_digest TEXT,
    PRIMARY KEY (namespace_id, id)
);
CREATE TABLE revisions (
    namespace_id INTEGER NOT NULL,
    memory_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    revision_kind TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    content TEXT NOT NULL,
    confidence REAL NOT NULL,
    importance REAL NOT NULL,
    salience REAL,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (namespace_id, memory_id, revision)
) WITHOUT ROWID;
CREATE TABLE decisions (
    position INTEGER PRIMARY KEY,
    plan_id TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    action TEXT NOT NULL,
    expected_revision INTEGER NOT NULL,
    status TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    importance REAL NOT NULL,
    salience REAL,
    access_count INTEGER NOT NULL,
    last_accessed_at INTEGER,
    expires_at INTEGER,
    tombstoned_at INTEGER,
    age_days REAL NOT NULL,
    score REAL,
    outcome TEXT
);
CREATE TABLE apply_receipts (
    receipt_key TEXT PRIMARY KEY,
    plan_id TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    action TEXT NOT NULL,
    revision INTEGER NOT NULL,
    age_days REAL NOT NULL,
    score REAL,
    tombstoned_at INTEGER NOT NULL,
    applied_at INTEGER NOT NULL
) WITHOUT ROWID;

-- name: open_file
-- Durable commits; a cache and a mapping that hold the whole file.
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -500000;
PRAGMA mmap_size = 4000000000;

-- name: analyze
ANALYZE

-- name: insert_memory
INSERT INTO memories (
    namespace_id, id, revision, revision_kind, kind, status, content, confidence, importance, salience,
    tags, metadata, pinned, updated_at, expires_at, marks, created_at, content_at, restored_at,
    tombstoned_at, last_accessed_at, access_count, origin, origin_digest
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: plan_sweep
INSERT INTO decisions (
    plan_id, memory_id, reason, action, expected_revision, status, pinned, importance, salience,
    access_count, last_accessed_at, expires_at, tombstoned_at, age_days, score
)
WITH facts AS (
    SELECT
        *,
        max($now - max(created_at, content_at, coalesce(restored_at, created_at)), 0) / 86400000000.0 AS age_days
    FROM memories NOT INDEXED
    WHERE namespace_id = 1
),
scored AS (
    SELECT
        *,
        coalesce(salience, 1.0) * exp(-0.02 * age_days) + CASE WHEN last_accessed_at IS NULL THEN 0.0
        ELSE 0.6 * ln(1 + access_count) * exp(-0.04 * (max($now - last_accessed_at, 0) / 86400000000.0)) END AS score
    FROM facts
),
judged AS (
    SELECT
        *,
        CASE
            WHEN expires_at <= $now THEN 'expired'
            WHEN status = 'tombstoned' THEN CASE WHEN tombstoned_at <= $purge_before THEN 'purge' END
            WHEN status <> 'active' OR kind <> 'episodic' OR pinned THEN NULL
            WHEN marks <> '[]' AND (
                marks LIKE '%"%:keep"%' OR marks LIKE '%"%:pinned"%' OR marks LIKE '%"%:protected"%'
            ) THEN NULL
            WHEN score < 0.2 THEN 'cold'
        END AS verdict
    FROM scored
)
SELECT
    $plan_id, id, verdict, CASE verdict WHEN 'expired' THEN 'delete' WHEN 'cold' THEN 'tombstone' ELSE 'purge' END,
    revision, status, pinned, importance, salience, access_count, last_accessed_at, expires_at,
    tombstoned_at, age_days, score
FROM judged
WHERE verdict IS NOT NULL
ORDER BY CASE verdict WHEN 'expired' THEN 1 WHEN 'cold' THEN 2 ELSE 3 END, id

-- name: count_prune
-- What the cap has to know beside the stale rows: visible, protected and just written ones.
WITH facts AS (
    SELECT
        max(created_at, content_at, coalesce(restored_at, created_at)) AS age_at,
        pinned OR access_count >= 3 OR marks <> '[]' AS is_protected
    FROM memories NOT INDEXED
    WHERE namespace_id = 1 AND status = 'active' AND (expires_at IS NULL OR expires_at > $now)
)
SELECT count(*), sum(is_protected), sum(NOT is_protected AND age_at > $grace_after)
FROM facts

-- name: plan_stale
INSERT INTO decisions (
    plan_id, memory_id, reason, action, expected_revision, status, pinned, importance, salience,
    access_count, last_accessed_at, expires_at, tombstoned_at, age_days, score
)
WITH facts AS (
    SELECT *, max(created_at, content_at, coalesce(restored_at, created_at)) AS age_at
    FROM memories NOT INDEXED
    WHERE namespace_id = 1
        AND status = 'active'
        AND (expires_at IS NULL OR expires_at > $now)
        AND importance < 0.5
        AND NOT pinned
        AND access_count < 3
        AND marks = '[]'
)
SELECT
    $plan_id, id, 'stale', 'tombstone', revision, status, pinned, importance, salience, access_count,
    last_accessed_at, expires_at, tombstoned_at, ($now - age_at) / 86400000000.0, NULL
FROM facts
WHERE age_at < $stale_before
ORDER BY id

-- name: plan_over_cap
INSERT INTO decisions (
    plan_id, memory_id, reason, action, expected_revision, status, pinned, importance, salience,
    access_count, last_accessed_at, expires_at, tombstoned_at, age_days, score
)
WITH facts AS (
    SELECT *, max(created_at, content_at, coalesce(restored_at, created_at)) AS age_at
    FROM memories NOT INDEXED
    WHERE namespace_id = 1
        AND status = 'active'
        AND (expires_at IS NULL OR expires_at > $now)
        AND NOT pinned
        AND access_count < 3
        AND marks = '[]'
)
SELECT
    $plan_id, id, 'over_cap', 'tombstone', revision, status, pinned, importance, salience, access_count,
    last_accessed_at, expires_at, tombstoned_at, ($now - age_at) / 86400000000.0,
    importance * 0.7 + exp(-(($now - age_at) / 86400000000.0) / 30.0) * 0.3 AS relevance
FROM facts
WHERE NOT (importance < 0.5 AND age_at < $stale_before) AND age_at <= $grace_after
ORDER BY relevance, created_at, id DESC
LIMIT $over_cap

-- name: keep_revisions
INSERT INTO revisions (
    namespace_id, memory_id, revision, revision_kind, kind, status, content, confidence, importance,
    salience, tags, metadata, pinned, updated_at, expires_at
)
SELECT
    m.namespace_id, m.id, m.revision, m.revision_kind, m.kind, m.status, m.content, m.confidence,
    m.importance, m.salience, m.tags, m.metadata, m.pinned, m.updated_at, m.expires_at
FROM decisions AS d
CROSS JOIN memories AS m ON m.namespace_id = 1 AND m.id = d.memory_id
WHERE d.plan_id = $plan_id
ORDER BY m.id

-- name: tombstone_memories
UPDATE memories
SET
    status = 'tombstoned', tombstoned_at = $now, revision = memories.revision + 1,
    revision_kind = 'status_changed', updated_at = max($now, updated_at)
FROM decisions AS d
WHERE d.plan_id = $plan_id
    AND memories.namespace_id = 1
    AND memories.id = d.memory_id
    AND memories.revision = d.expected_revision
    AND memories.status = d.status
    AND memories.pinned = d.pinned
    AND memories.importance = d.importance
    AND memories.salience IS d.salience
    AND memories.access_count = d.access_count
    AND memories.last_accessed_at IS d.last_accessed_at
    AND memories.expires_at IS d.expires_at

-- name: insert_receipts
INSERT INTO apply_receipts (
    receipt_key, plan_id, memory_id, reason, action, revision, age_days, score, tombstoned_at, applied_at
)
SELECT
    sha256($plan_id, d.memory_id) AS receipt_key, d.plan_id, d.memory_id, d.reason, d.action,
    d.expected_revision + 1, d.age_days, d.score, $now, $now
FROM decisions AS d
WHERE d.plan_id = $plan_id
ORDER BY receipt_key

-- name: record_outcomes
UPDATE decisions SET outcome = 'applied' WHERE plan_id = $plan_id

-- name: read_decided
SELECT reason, memory_id FROM decisions

-- name: read_applied
SELECT reason, memory_id FROM apply_receipts
