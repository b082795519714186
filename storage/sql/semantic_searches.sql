-- name: read_revision
SELECT revision FROM semantic_states WHERE partition = $partition

-- name: count_searches
SELECT count(*) FROM semantic_searches WHERE namespace_id = $namespace_id

-- name: list_searches
SELECT text_number, floor_cosine, floor_number
FROM semantic_searches
WHERE namespace_id = $namespace_id AND partition = $partition
ORDER BY text_number

-- name: list_pairs
SELECT text_number, partner_number, cosine
FROM semantic_pairs
WHERE namespace_id = $namespace_id AND partition = $partition
ORDER BY text_number, partner_number

-- name: insert_state
INSERT INTO semantic_states (partition, revision)
SELECT $partition, 0
WHERE NOT EXISTS (SELECT 1 FROM semantic_states WHERE partition = $partition)

-- name: step_state
-- Compare-and-swap: one row, or another run has stored its searches first.
UPDATE semantic_states SET revision = revision + 1 WHERE partition = $partition AND revision = $expected

-- name: drop_searches
-- Of other partitions, of texts that take no part any more, and those that are known differently now.
DELETE FROM semantic_searches
WHERE namespace_id = $namespace_id AND (
    partition <> $partition
    OR NOT EXISTS (
        SELECT 1
        FROM incoming AS i
        WHERE i.text_number = semantic_searches.text_number
            AND i.floor_cosine = semantic_searches.floor_cosine
            AND i.floor_number IS NOT DISTINCT FROM semantic_searches.floor_number
    )
)

-- name: insert_searches
-- Of texts that a memory still has: it may have been removed since they were read.
INSERT INTO semantic_searches BY NAME
SELECT
    $namespace_id AS namespace_id, $partition AS partition, i.text_number, i.floor_cosine, i.floor_number
FROM incoming AS i
SEMI JOIN memories AS m
    ON m.namespace_id = $namespace_id AND m.text_number = i.text_number AND m.status = 'active'
ANTI JOIN semantic_searches AS s
    ON s.namespace_id = $namespace_id AND s.partition = $partition AND s.text_number = i.text_number

-- name: drop_pairs
DELETE FROM semantic_pairs
WHERE namespace_id = $namespace_id AND (
    partition <> $partition
    OR NOT EXISTS (
        SELECT 1
        FROM incoming AS i
        WHERE i.text_number = semantic_pairs.text_number
            AND i.partner_number = semantic_pairs.partner_number
            AND i.cosine = semantic_pairs.cosine
    )
)

-- name: insert_pairs
INSERT INTO semantic_pairs BY NAME
SELECT
    $namespace_id AS namespace_id, $partition AS partition, i.text_number, i.partner_number, i.cosine
FROM incoming AS i
SEMI JOIN semantic_searches AS s
    ON s.namespace_id = $namespace_id AND s.partition = $partition AND s.text_number = i.text_number
SEMI JOIN semantic_searches AS o
    ON o.namespace_id = $namespace_id AND o.partition = $partition AND o.text_number = i.partner_number
ANTI JOIN semantic_pairs AS p
    ON p.namespace_id = $namespace_id
    AND p.partition = $partition
    AND p.text_number = i.text_number
    AND p.partner_number = i.partner_number

-- name: delete_pairs
DELETE FROM semantic_pairs
WHERE namespace_id = $namespace_id AND (
    text_number IN (SELECT m.text_number FROM memories AS m INNER JOIN removed AS g ON g.memory_id = m.id WHERE m.namespace_id = $namespace_id)
    OR partner_number IN (SELECT m.text_number FROM memories AS m INNER JOIN removed AS g ON g.memory_id = m.id WHERE m.namespace_id = $namespace_id)
)

-- name: delete_searches
DELETE FROM semantic_searches
WHERE namespace_id = $namespace_id AND text_number IN (
    SELECT m.text_number
    FROM memories AS m
    INNER JOIN removed AS g ON g.memory_id = m.id
    WHERE m.namespace_id = $namespace_id AND m.text_number IS NOT NULL
)
