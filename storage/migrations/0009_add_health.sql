-- One row for each figure of a snapshot: numbers only, and words of our own such as an outcome.
-- namespace_id: NULL where the figure is about the whole store. threshold: of a breach, what it broke.
CREATE TABLE health (
    run_id TEXT NOT NULL,
    taken_at TIMESTAMPTZ NOT NULL,
    namespace_id INTEGER,
    subject TEXT NOT NULL,
    metric TEXT NOT NULL,
    value DOUBLE,
    label TEXT,
    threshold DOUBLE
);
