-- The first 64 bits of a content's fingerprint, so that a copy is found without reading texts.
-- 0: the content is too short to have one. NULL: not computed yet.
ALTER TABLE memories ADD COLUMN fingerprint_key BIGINT;

-- Which ids a memory has taken in: one row for each source, with the revision that the merge made.
-- losses: JSON of what the merge did not keep, such as the value of a metadata key.
CREATE TABLE merge_sources (
    namespace_id INTEGER NOT NULL,
    memory_id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    position INTEGER NOT NULL,
    source_id TEXT NOT NULL,
    losses TEXT NOT NULL,
    PRIMARY KEY (namespace_id, memory_id, revision, position)
);
