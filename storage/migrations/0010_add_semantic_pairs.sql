-- What searches among the vectors of a partition have found. All of it can be found again.

-- How often the searches of a partition were stored: who stores compares what they had read.
CREATE TABLE semantic_states (
    partition TEXT PRIMARY KEY,
    revision BIGINT NOT NULL CHECK (revision >= 0)
);

-- The texts that were compared with each other, and how far down their near partners are known: each
-- that is nearer than floor_cosine, and of those at it the ones up to floor_number, NULL for all.
CREATE TABLE semantic_searches (
    namespace_id INTEGER NOT NULL,
    partition TEXT NOT NULL,
    text_number BIGINT NOT NULL,
    floor_cosine DOUBLE NOT NULL,
    floor_number BIGINT
);

-- Two of these texts, the smaller number first; either has the other above its floor.
CREATE TABLE semantic_pairs (
    namespace_id INTEGER NOT NULL,
    partition TEXT NOT NULL,
    text_number BIGINT NOT NULL,
    partner_number BIGINT NOT NULL,
    cosine DOUBLE NOT NULL
);
