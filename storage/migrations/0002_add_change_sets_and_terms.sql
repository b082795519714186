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

-- Each content that is written gets a text number that none had before; postings of an earlier
-- content then belong to nothing. NULL: not indexed yet.
CREATE SEQUENCE text_numbers;

ALTER TABLE memories ADD COLUMN text_number BIGINT;

CREATE TABLE memory_terms (
    namespace_id INTEGER NOT NULL,
    term_hash BIGINT NOT NULL,
    text_number BIGINT NOT NULL
);
