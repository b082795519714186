-- name: count_stale_texts
-- Rows of another profile, and of texts that no active memory has.
SELECT count(*)
FROM duplicate_texts AS t
WHERE t.namespace_id = $namespace_id AND (
    t.profile <> $profile
    OR NOT EXISTS (
        SELECT 1
        FROM memories AS m
        WHERE m.namespace_id = t.namespace_id AND m.text_number = t.text_number AND m.status = 'active'
    )
)

-- name: read_untokenised
-- Active memories whose current text has no row yet, in order of text numbers.
SELECT m.id, m.text_number, m.content
FROM memories AS m
WHERE m.namespace_id = $namespace_id
    AND m.status = 'active'
    AND m.text_number > $after
    AND NOT EXISTS (
        SELECT 1
        FROM duplicate_texts AS t
        WHERE t.namespace_id = m.namespace_id AND t.text_number = m.text_number AND t.profile = $profile
    )
ORDER BY m.text_number
LIMIT $limit

-- name: insert_texts
-- What another process has inserted meanwhile stays.
INSERT INTO duplicate_texts BY NAME
SELECT
    i.namespace_id, i.text_number, $profile AS profile, i.fingerprint_key, i.text_key,
    list_sort(i.terms) AS terms
FROM incoming AS i
WHERE NOT EXISTS (
    SELECT 1
    FROM duplicate_texts AS t
    WHERE t.namespace_id = i.namespace_id AND t.text_number = i.text_number
)

-- name: insert_keys
INSERT INTO duplicate_keys BY NAME
SELECT i.namespace_id, i.text_number, i.key_kind, i.key_hash, i.value_hash
FROM incoming AS i
WHERE NOT EXISTS (
    SELECT 1
    FROM duplicate_keys AS k
    WHERE k.namespace_id = i.namespace_id AND k.text_number = i.text_number
)

-- name: drop_stale_texts
DELETE FROM duplicate_texts
WHERE namespace_id = $namespace_id AND (
    profile <> $profile
    OR NOT EXISTS (
        SELECT 1
        FROM memories AS m
        WHERE m.namespace_id = duplicate_texts.namespace_id
            AND m.text_number = duplicate_texts.text_number
            AND m.status = 'active'
    )
)

-- name: drop_stale_keys
DELETE FROM duplicate_keys
WHERE namespace_id = $namespace_id AND NOT EXISTS (
    SELECT 1
    FROM duplicate_texts AS t
    WHERE t.namespace_id = duplicate_keys.namespace_id AND t.text_number = duplicate_keys.text_number
)

-- name: drop_stale_verdicts
DELETE FROM judged_pairs
WHERE namespace_id = $namespace_id AND (
    text_number NOT IN (SELECT t.text_number FROM duplicate_texts AS t WHERE t.namespace_id = $namespace_id)
    OR partner_number NOT IN (SELECT t.text_number FROM duplicate_texts AS t WHERE t.namespace_id = $namespace_id)
)

-- name: delete_verdicts
DELETE FROM judged_pairs
WHERE namespace_id = $namespace_id AND (
    text_number IN (SELECT m.text_number FROM memories AS m INNER JOIN removed AS g ON g.memory_id = m.id WHERE m.namespace_id = $namespace_id)
    OR partner_number IN (SELECT m.text_number FROM memories AS m INNER JOIN removed AS g ON g.memory_id = m.id WHERE m.namespace_id = $namespace_id)
)

-- name: delete_texts
DELETE FROM duplicate_texts
WHERE namespace_id = $namespace_id AND text_number IN (
    SELECT m.text_number
    FROM memories AS m
    INNER JOIN removed AS g ON g.memory_id = m.id
    WHERE m.namespace_id = $namespace_id AND m.text_number IS NOT NULL
)

-- name: delete_keys
DELETE FROM duplicate_keys
WHERE namespace_id = $namespace_id AND text_number IN (
    SELECT m.text_number
    FROM memories AS m
    INNER JOIN removed AS g ON g.memory_id = m.id
    WHERE m.namespace_id = $namespace_id AND m.text_number IS NOT NULL
)
