-- A decision of consolidation is a loser: the memory that head_id, its canonical memory, takes in.
-- head_revision is the revision that the canonical has to have; NULL for all other decisions.
CREATE TABLE decisions_with_merges (
    plan_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    memory_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    action TEXT NOT NULL CHECK (action IN ('tombstone', 'delete', 'purge', 'merge')),
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
    head_revision BIGINT,
    figures TEXT NOT NULL,
    outcome TEXT,
    error TEXT,
    run_id TEXT
);

INSERT INTO decisions_with_merges BY NAME
SELECT
    plan_id, position, memory_id, reason, action, expected_revision, current_revision, status, pinned,
    importance, salience, access_count, last_accessed_at, expires_at, tombstoned_at, head_id, figures,
    outcome, error, run_id
FROM decisions;

DROP TABLE decisions;

ALTER TABLE decisions_with_merges RENAME TO decisions;

-- One row for each change set that merged. figures: what the canonical was that its history does not
-- say (clocks, uses), and what the merge made of it; losers: JSON, the revision that each then had.
-- Merges are taken back in the opposite order of `position`.
CREATE TABLE merge_receipts (
    receipt_id TEXT PRIMARY KEY,
    position BIGINT NOT NULL,
    namespace_id INTEGER NOT NULL,
    plan_id TEXT,
    run_id TEXT NOT NULL,
    canonical_id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    losers TEXT NOT NULL,
    figures TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL,
    released_at TIMESTAMPTZ
);

-- Two memories that are no duplicates, as long as both have these contents; memory_id < partner_id.
CREATE TABLE kept_apart (
    namespace_id INTEGER NOT NULL,
    memory_id TEXT NOT NULL,
    partner_id TEXT NOT NULL,
    content_digest TEXT NOT NULL,
    partner_digest TEXT NOT NULL,
    noted_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (namespace_id, memory_id, partner_id)
);

-- The verdict on two texts, for these kinds, under the profile of their rows in duplicate_texts;
-- the one with the smaller number first.
CREATE TABLE judged_pairs (
    namespace_id INTEGER NOT NULL,
    text_number BIGINT NOT NULL,
    partner_number BIGINT NOT NULL,
    kind TEXT NOT NULL,
    partner_kind TEXT NOT NULL,
    result TEXT NOT NULL,
    reasons TEXT NOT NULL,
    conflict_class TEXT,
    shared BIGINT NOT NULL,
    union_size BIGINT NOT NULL
);

-- What texts with an equal key differ in; keys with many values are a series, no contradictions.
ALTER TABLE duplicate_keys ADD COLUMN value_hash BIGINT;

-- Under which detection profile a plan was made; NULL where a job has none.
ALTER TABLE plans ADD COLUMN profile TEXT;

-- What a plan reports beside its decisions: pairs that are refused, contradictions, and lines about
-- whole groups, which have no partner. Figures only, in the order that people read.
CREATE TABLE plan_pairs (
    plan_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    result TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    partner_id TEXT,
    reasons TEXT NOT NULL,
    figures TEXT NOT NULL
);
