-- What keeps a run from starting, and what ends it early: slots, pauses, closing, cancellation.

-- slot: when a scheduled run was planned to start. slot_day: the local date of it, for a schedule
-- that runs once a day where people live.
ALTER TABLE runs ADD COLUMN slot TIMESTAMPTZ;

ALTER TABLE runs ADD COLUMN slot_day TEXT;

-- Somebody asks the holder to end before its commit point; the next grant forgets it.
ALTER TABLE leases ADD COLUMN cancel_requested BOOLEAN;

-- Since when a job runs at an interval: the first interval after that is waited for.
CREATE TABLE activations (
    namespace_id INTEGER NOT NULL,
    job TEXT NOT NULL,
    interval_s BIGINT NOT NULL,
    activated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (namespace_id, job)
);

-- One row: whether runs may start at all. report: JSON, what the last close came to.
CREATE TABLE control (
    control_id INTEGER PRIMARY KEY CHECK (control_id = 1),
    phase TEXT NOT NULL CHECK (phase IN ('running', 'closing', 'closed')),
    report TEXT,
    changed_at TIMESTAMPTZ NOT NULL
);

-- Jobs that a person has switched off, and on again; '*' is every job.
CREATE TABLE pauses (
    job TEXT PRIMARY KEY,
    is_paused BOOLEAN NOT NULL,
    changed_at TIMESTAMPTZ NOT NULL
);

CREATE OR REPLACE VIEW run_history AS
SELECT
    r.run_id, r.job, n.tenant, n.principal, n.scope, r.mode, r.trigger, r.slot, r.flow_run_id, r.plan_id, r.now,
    r.outcome, r.code, r.error, r.found, r.applied, r.skipped, r.failed, r.figures, r.started_at, r.ended_at,
    date_diff('millisecond', r.started_at, r.ended_at) AS elapsed_ms
FROM runs AS r
INNER JOIN namespaces AS n ON n.namespace_id = r.namespace_id;
