-- name: number_texts
-- The current text of each memory gets a number that no text had before: postings of earlier texts
-- then belong to nothing.
UPDATE memories
SET text_number = nextval('text_numbers'), fingerprint_key = i.fingerprint_key
FROM incoming AS i
WHERE memories.namespace_id = i.namespace_id AND memories.id = i.memory_id

-- name: insert_terms
-- Sorted, so that a term's postings lie in few row groups.
INSERT INTO memory_terms (namespace_id, term_hash, text_number)
SELECT t.namespace_id, t.term_hash, t.text_number
FROM (
    SELECT m.namespace_id, unnest(i.terms) AS term_hash, m.text_number
    FROM incoming AS i
    INNER JOIN memories AS m ON m.namespace_id = i.namespace_id AND m.id = i.memory_id
) AS t
ORDER BY t.term_hash, t.text_number

-- name: number_text
UPDATE memories
SET text_number = nextval('text_numbers'), fingerprint_key = $fingerprint_key
WHERE namespace_id = $namespace_id AND id = $memory_id

-- name: insert_terms_of_text
-- Those of the text that was numbered last.
INSERT INTO memory_terms (namespace_id, term_hash, text_number)
SELECT $namespace_id, unnest($terms::BIGINT[]), currval('text_numbers')

-- name: delete_terms
DELETE FROM memory_terms
WHERE namespace_id = $namespace_id AND text_number IN (
    SELECT m.text_number
    FROM memories AS m
    INNER JOIN removed AS g ON g.memory_id = m.id
    WHERE m.namespace_id = $namespace_id AND m.text_number IS NOT NULL
)

-- name: gather_terms
CREATE OR REPLACE TEMP TABLE gathered_terms AS
SELECT t.namespace_id, t.term_hash, t.text_number
FROM memory_terms AS t
INNER JOIN memories AS m ON m.namespace_id = t.namespace_id AND m.text_number = t.text_number
ORDER BY t.namespace_id, t.term_hash, t.text_number

-- name: clear_terms
DELETE FROM memory_terms

-- name: refill_terms
INSERT INTO memory_terms (namespace_id, term_hash, text_number)
SELECT namespace_id, term_hash, text_number
FROM gathered_terms

-- name: drop_gathered
DROP TABLE gathered_terms

-- name: read_unindexed
SELECT namespace_id, id, content
FROM memories
WHERE text_number IS NULL
ORDER BY namespace_id, id
LIMIT $limit

-- name: find_postings
SELECT text_number
FROM memory_terms
WHERE namespace_id = $namespace_id AND term_hash IN (SELECT unnest($hashes::BIGINT[]))

-- name: read_texts
SELECT text_number, content
FROM memories
WHERE namespace_id = $namespace_id AND text_number IS NOT NULL

-- name: read_found_texts
SELECT m.text_number, m.content
FROM incoming AS f
INNER JOIN memories AS m ON m.text_number = f.text_number
WHERE m.namespace_id = $namespace_id

-- name: keep_decided
SELECT f.text_number, f.matched
FROM incoming AS f
INNER JOIN memories AS m ON m.text_number = f.text_number
WHERE m.namespace_id = $namespace_id AND EXISTS (
    SELECT 1
    FROM evidence AS e
    WHERE e.namespace_id = m.namespace_id
        AND e.memory_id = m.id
        AND e.kind IN ('manual', 'verification')
        AND e.since_revision <= m.revision
)

-- name: narrow_matches
-- The best matches without their ids, which cost more to read than all the rest.
SELECT f.text_number, f.matched, m.updated_at
FROM incoming AS f
INNER JOIN memories AS m ON m.text_number = f.text_number
WHERE m.namespace_id = $namespace_id
    AND list_contains($statuses::TEXT[], m.status)
    AND ($all_kinds OR list_contains($kinds::TEXT[], m.kind))
    AND ($live_at::TIMESTAMPTZ IS NULL OR m.expires_at IS NULL OR m.expires_at > $live_at)
ORDER BY f.matched DESC, m.updated_at DESC
LIMIT $limit

-- name: rank_matches
SELECT m.id, m.revision, m.kind, m.status, m.content, m.updated_at, m.expires_at, f.matched
FROM incoming AS f
INNER JOIN memories AS m ON m.text_number = f.text_number
WHERE m.namespace_id = $namespace_id
    AND list_contains($statuses::TEXT[], m.status)
    AND ($all_kinds OR list_contains($kinds::TEXT[], m.kind))
    AND ($live_at::TIMESTAMPTZ IS NULL OR m.expires_at IS NULL OR m.expires_at > $live_at)
ORDER BY f.matched DESC, m.updated_at DESC, m.id
LIMIT $limit

-- name: list_newest
SELECT m.id, m.revision, m.kind, m.status, m.content, m.updated_at, m.expires_at
FROM memories AS m
WHERE m.namespace_id = $namespace_id
    AND list_contains($statuses::TEXT[], m.status)
    AND ($all_kinds OR list_contains($kinds::TEXT[], m.kind))
    AND ($live_at::TIMESTAMPTZ IS NULL OR m.expires_at IS NULL OR m.expires_at > $live_at)
ORDER BY m.updated_at DESC, m.id
LIMIT $limit

-- name: list_newest_decided
SELECT m.id, m.revision, m.kind, m.status, m.content, m.updated_at, m.expires_at
FROM memories AS m
WHERE m.namespace_id = $namespace_id
    AND list_contains($statuses::TEXT[], m.status)
    AND ($all_kinds OR list_contains($kinds::TEXT[], m.kind))
    AND ($live_at::TIMESTAMPTZ IS NULL OR m.expires_at IS NULL OR m.expires_at > $live_at)
    AND EXISTS (
        SELECT 1
        FROM evidence AS e
        WHERE e.namespace_id = m.namespace_id
            AND e.memory_id = m.id
            AND e.kind IN ('manual', 'verification')
            AND e.since_revision <= m.revision
    )
ORDER BY m.updated_at DESC, m.id
LIMIT $limit
