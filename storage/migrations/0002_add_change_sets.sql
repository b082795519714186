-- Change sets are replayed by key: what they made is named, not copied.
CREATE TABLE change_sets (
    namespace_id INTEGER NOT NULL,
    idempotency_key TEXT NOT NULL,
    digest TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    results TEXT NOT NULL,
    occurred_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (namespace_id, idempotency_key)
);
