-- The first schema. PRIMARY KEY and CHECK only: no foreign keys, no triggers, no index on a column
-- that changes. Lists and maps are JSON text, instants TIMESTAMPTZ in UTC microseconds.

CREATE TABLE store_meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE namespaces (
    namespace_id INTEGER PRIMARY KEY,
    namespace_key TEXT NOT NULL,
    tenant TEXT NOT NULL,
    principal TEXT NOT NULL,
    scope TEXT NOT NULL,
    sequence BIGINT NOT NULL CHECK (sequence >= 0),
    change_fence BIGINT NOT NULL CHECK (change_fence >= 0)
);

-- salience has no CHECK: a value written past admission must stay readable, the sweep reports it.
-- marks: JSON list of the normalised keep words found in tags and metadata, such as "tag:keep".
CREATE TABLE memories (
    namespace_id INTEGER NOT NULL,
    id TEXT NOT NULL,
    revision BIGINT NOT NULL CHECK (revision >= 1),
    revision_kind TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('episodic', 'semantic', 'procedural', 'working')),
    status TEXT NOT NULL CHECK (status IN ('candidate', 'active', 'superseded', 'conflicted', 'tombstoned')),
    content TEXT NOT NULL,
    confidence FLOAT NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    importance FLOAT NOT NULL CHECK (importance BETWEEN 0 AND 1),
    salience FLOAT,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    pinned BOOLEAN NOT NULL,
    marks TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    content_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    restored_at TIMESTAMPTZ,
    tombstoned_at TIMESTAMPTZ,
    last_accessed_at TIMESTAMPTZ,
    access_count BIGINT NOT NULL CHECK (access_count >= 0),
    origin TEXT NOT NULL CHECK (origin IN ('change_set', 'store_api', 'import')),
    origin_digest TEXT,
    PRIMARY KEY (namespace_id, id)
);

-- The state that each past revision had, without evidence and relations: those rows say
-- themselves from which revision on they hold.
CREATE TABLE revisions (
    namespace_id INTEGER NOT NULL,
    memory_id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    revision_kind TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    content TEXT NOT NULL,
    confidence FLOAT NOT NULL,
    importance FLOAT NOT NULL,
    salience FLOAT,
    tags TEXT NOT NULL,
    metadata TEXT NOT NULL,
    pinned BOOLEAN NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    PRIMARY KEY (namespace_id, memory_id, revision)
);

CREATE TABLE evidence (
    namespace_id INTEGER NOT NULL,
    memory_id TEXT NOT NULL,
    uri TEXT NOT NULL,
    digest TEXT NOT NULL,
    kind TEXT NOT NULL,
    occurred_at TIMESTAMPTZ NOT NULL,
    since_revision BIGINT NOT NULL,
    PRIMARY KEY (namespace_id, memory_id, uri)
);

-- An edge holds for the revisions since_revision <= r < until_revision of memory_id.
CREATE TABLE relations (
    namespace_id INTEGER NOT NULL,
    memory_id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('supersedes', 'superseded_by', 'conflicts_with', 'related_to')),
    target_id TEXT NOT NULL,
    since_revision BIGINT NOT NULL,
    until_revision BIGINT,
    PRIMARY KEY (namespace_id, memory_id, kind, target_id, since_revision)
);

CREATE TABLE access_events (
    namespace_id INTEGER NOT NULL,
    event_kind TEXT NOT NULL CHECK (event_kind IN ('admission', 'use')),
    event_id TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    occurred_at TIMESTAMPTZ NOT NULL,
    context_id TEXT,
    actor TEXT,
    PRIMARY KEY (namespace_id, event_kind, event_id)
);

CREATE TABLE leases (
    lease_key TEXT PRIMARY KEY,
    namespace_id INTEGER NOT NULL,
    job TEXT NOT NULL,
    holder TEXT,
    lease_fence BIGINT NOT NULL,
    heartbeat_at TIMESTAMPTZ,
    expires_at TIMESTAMPTZ
);

CREATE TABLE plans (
    plan_id TEXT PRIMARY KEY,
    job TEXT NOT NULL,
    namespace_id INTEGER NOT NULL,
    now TIMESTAMPTZ NOT NULL,
    policy TEXT NOT NULL,
    batch_size INTEGER NOT NULL CHECK (batch_size >= 1),
    planned BIGINT NOT NULL,
    carried BIGINT NOT NULL,
    judged BIGINT NOT NULL,
    visible BIGINT NOT NULL,
    counters TEXT NOT NULL,
    warnings TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);

-- position is the order of apply. No key: a plan's rows are written once, with their plan.
-- A row with reason 'carried' is an ancestor that goes with its head (head_id, same position); it is
-- no decision of its own and in no counter of decisions.
CREATE TABLE decisions (
    plan_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    memory_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    action TEXT NOT NULL CHECK (action IN ('tombstone', 'delete', 'purge')),
    expected_revision BIGINT NOT NULL,
    current_revision BIGINT NOT NULL,
    status TEXT NOT NULL,
    pinned BOOLEAN NOT NULL,
    importance FLOAT NOT NULL,
    salience FLOAT,
    access_count BIGINT NOT NULL,
    last_accessed_at TIMESTAMPTZ,
    expires_at TIMESTAMPTZ,
    tombstoned_at TIMESTAMPTZ,
    head_id TEXT,
    figures TEXT NOT NULL,
    outcome TEXT,
    error TEXT,
    run_id TEXT
);

CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    job TEXT NOT NULL,
    namespace_id INTEGER NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('plan', 'apply')),
    trigger TEXT NOT NULL CHECK (trigger IN ('manual', 'schedule')),
    flow_run_id TEXT,
    plan_id TEXT,
    now TIMESTAMPTZ NOT NULL,
    lease_fence BIGINT,
    outcome TEXT NOT NULL,
    code TEXT,
    error TEXT,
    found BIGINT NOT NULL,
    applied BIGINT NOT NULL,
    skipped TEXT NOT NULL,
    failed BIGINT NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    ended_at TIMESTAMPTZ
);

CREATE TABLE apply_receipts (
    receipt_key TEXT PRIMARY KEY,
    plan_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    namespace_id INTEGER NOT NULL,
    memory_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    action TEXT NOT NULL,
    revision BIGINT NOT NULL,
    revisions_deleted BIGINT NOT NULL,
    carried TEXT,
    ancestors_kept TEXT,
    figures TEXT NOT NULL,
    expires_at TIMESTAMPTZ,
    tombstoned_at TIMESTAMPTZ,
    applied_at TIMESTAMPTZ NOT NULL
);

-- Disjoint lifecycle counters per namespace; they add up to total.
CREATE MACRO memory_state(instant) AS TABLE
SELECT
    n.tenant,
    n.principal,
    n.scope,
    count(m.id) AS total,
    count(m.id) FILTER (m.status = 'active' AND NOT coalesce(m.expires_at <= instant, false)) AS active,
    count(m.id) FILTER (m.status = 'candidate') AS candidate,
    count(m.id) FILTER (m.status = 'superseded') AS superseded,
    count(m.id) FILTER (m.status = 'conflicted') AS conflicted,
    count(m.id) FILTER (m.status = 'active' AND coalesce(m.expires_at <= instant, false)) AS expired_pending,
    count(m.id) FILTER (m.status = 'tombstoned') AS tombstoned
FROM namespaces AS n
LEFT JOIN memories AS m ON m.namespace_id = n.namespace_id
GROUP BY n.tenant, n.principal, n.scope;

CREATE VIEW run_history AS
SELECT
    r.run_id, r.job, n.tenant, n.principal, n.scope, r.mode, r.trigger, r.flow_run_id, r.plan_id, r.now,
    r.outcome, r.code, r.error, r.found, r.applied, r.skipped, r.failed, r.started_at, r.ended_at,
    date_diff('millisecond', r.started_at, r.ended_at) AS elapsed_ms
FROM runs AS r
INNER JOIN namespaces AS n ON n.namespace_id = r.namespace_id;

CREATE VIEW decision_history AS
SELECT
    d.plan_id, p.job, n.tenant, n.principal, n.scope, p.now, d.position, d.memory_id, d.reason, d.action,
    d.expected_revision, d.outcome, d.error, d.run_id, d.figures, d.head_id
FROM decisions AS d
INNER JOIN plans AS p ON p.plan_id = d.plan_id
INNER JOIN namespaces AS n ON n.namespace_id = p.namespace_id;
