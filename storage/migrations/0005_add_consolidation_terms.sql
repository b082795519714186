-- What consolidation compares of a text, in the detection profile that is named: hashes only. One
-- row for each text number; rows of texts that no memory has any more match nothing.
-- text_key: of the text itself, but for composition and format characters.
CREATE TABLE duplicate_texts (
    namespace_id INTEGER NOT NULL,
    text_number BIGINT NOT NULL,
    profile TEXT NOT NULL,
    fingerprint_key BIGINT NOT NULL,
    text_key BIGINT NOT NULL,
    terms BIGINT[] NOT NULL
);

-- Further keys of texts, for hash joins on one key a memory, such as that of its figures.
CREATE TABLE duplicate_keys (
    namespace_id INTEGER NOT NULL,
    text_number BIGINT NOT NULL,
    key_kind TEXT NOT NULL,
    key_hash BIGINT NOT NULL
);
