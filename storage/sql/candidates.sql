-- name: define_bounds
-- What texts of n and m tokens need to reach a Jaccard of 43/50, in integers (spec/consolidate.md
-- R32, R61). `left_over`: how many tokens a text has left to share, in its order.
CREATE OR REPLACE TEMP MACRO least_shared(n) AS (43 * n + 49) // 50;
CREATE OR REPLACE TEMP MACRO needed_shared(n, m) AS (43 * (n + m) + 92) // 93;
CREATE OR REPLACE TEMP MACRO largest_partner(n) AS 50 * n // 43;
CREATE OR REPLACE TEMP MACRO farthest_partner(n, left_over) AS (93 * left_over - 43 * n) // 43;
-- `total`: the tokens of both texts, shared ones twice.
CREATE OR REPLACE TEMP MACRO is_alike(shared, total) AS 50 * shared >= 43 * (total - shared);
-- Searching short lists is ten times as fast as hashing them.
CREATE OR REPLACE TEMP MACRO count_shared(a, b, longest) AS CASE
    WHEN len(a) <= longest THEN len(list_filter(a, lambda term: list_contains(b, term)))
    ELSE len(list_intersect(a, b))
END;

-- name: gather_members
-- Whoever takes part (R1). Copies with equal text and expiry are represented by the first of them;
-- two keys of 64 bits tell texts apart. Those in $alone stand for themselves.
CREATE OR REPLACE TEMP TABLE members AS
SELECT
    m.id AS memory_id, m.created_at, m.kind, m.text_number, t.fingerprint_key, len(t.terms) AS size,
    first_value(m.text_number) OVER copies AS represented_by,
    first_value(m.id) OVER copies AS representative_id
FROM memories AS m
INNER JOIN duplicate_texts AS t ON t.namespace_id = m.namespace_id AND t.text_number = m.text_number
WHERE m.namespace_id = $namespace_id
    AND t.profile = $profile
    AND m.status = 'active'
    AND (m.expires_at IS NULL OR m.expires_at > $now)
    AND len(t.terms) > 0
WINDOW copies AS (
    PARTITION BY
        m.kind, t.fingerprint_key, t.text_key, m.expires_at,
        CASE WHEN m.id IN (SELECT unnest($alone::TEXT[])) THEN m.id END
    ORDER BY m.created_at, m.id
)

-- name: list_copies
SELECT memory_id, representative_id
FROM members
WHERE text_number <> represented_by
ORDER BY created_at, memory_id

-- name: list_exact_groups
SELECT fingerprint_key AS key_hash, memory_id
FROM members
WHERE text_number = represented_by
QUALIFY count(*) OVER (PARTITION BY fingerprint_key) > 1
ORDER BY fingerprint_key, created_at, memory_id

-- name: list_key_groups
SELECT k.key_hash, m.memory_id
FROM members AS m
INNER JOIN duplicate_keys AS k ON k.text_number = m.text_number
WHERE k.namespace_id = $namespace_id AND k.key_kind = $key_kind AND m.text_number = m.represented_by
QUALIFY count(*) OVER (PARTITION BY k.key_hash) > 1
ORDER BY k.key_hash, m.created_at, m.memory_id

-- name: gather_prefixes
-- The rarest tokens of each text, of which two texts that are alike share at least two. A token
-- that one text only has counts for the order, but cannot be shared.
CREATE OR REPLACE TEMP TABLE prefixes AS
WITH postings AS (
    SELECT m.kind, m.text_number, m.size, unnest(t.terms) AS term
    FROM members AS m
    INNER JOIN duplicate_texts AS t ON t.namespace_id = $namespace_id AND t.text_number = m.text_number
    WHERE m.text_number = m.represented_by AND m.size >= $fewest_tokens
),

frequencies AS (
    SELECT kind, term, count(*) AS texts
    FROM postings
    GROUP BY kind, term
    HAVING count(*) > 1
),

ranked AS (
    SELECT
        p.kind, p.text_number, p.size, p.term,
        p.size - count(*) OVER (PARTITION BY p.text_number)
        + row_number() OVER (PARTITION BY p.text_number ORDER BY f.texts, p.term) AS place
    FROM postings AS p
    INNER JOIN frequencies AS f ON f.kind = p.kind AND f.term = p.term
)

SELECT kind, text_number, size, term, place
FROM ranked
WHERE place <= size - least_shared(size) + 2

-- name: gather_keys
-- Pairs of prefix tokens; where the longer text is longer than $longest, single tokens. `farthest`
-- is the largest size with which the tokens that follow can still suffice.
CREATE OR REPLACE TEMP TABLE prefix_keys AS
SELECT
    hash(a.kind, a.term, b.term) AS prefix_key, a.text_number, a.size, true AS is_asking,
    farthest_partner(a.size, a.size + 2 - b.place) AS farthest
FROM prefixes AS a
INNER JOIN prefixes AS b ON b.text_number = a.text_number AND b.place > a.place
WHERE a.size <= $longest
UNION ALL
SELECT
    hash(kind, term), text_number, size, size > $longest,
    farthest_partner(size, size + 1 - place)
FROM prefixes
WHERE largest_partner(size) > $longest AND place <= size - least_shared(size) + 1

-- name: gather_questions
-- Every text asks for partners of its own size and smaller ones, each size by itself.
CREATE OR REPLACE TEMP TABLE questions AS
SELECT
    prefix_key, text_number, size,
    unnest(range(greatest($fewest_tokens, least_shared(size)), least(size, farthest) + 1)) AS partner_size
FROM prefix_keys
WHERE is_asking

-- name: gather_large_families
-- Texts with too many partners already in a sample of the largest group that they ask; making all
-- pairs of such a family would take time with the square of its size.
CREATE OR REPLACE TEMP TABLE families AS
WITH crowds AS (
    SELECT prefix_key, size, count(*) AS texts
    FROM prefix_keys
    GROUP BY prefix_key, size
    HAVING count(*) > 4 * $largest_family
),

asked AS (
    SELECT q.text_number, arg_max({'prefix_key': c.prefix_key, 'size': c.size}, c.texts) AS crowd
    FROM questions AS q
    INNER JOIN crowds AS c ON c.prefix_key = q.prefix_key AND c.size = q.partner_size
    GROUP BY q.text_number
),

samples AS (
    SELECT k.prefix_key, k.size, k.text_number
    FROM prefix_keys AS k
    INNER JOIN crowds AS c ON c.prefix_key = k.prefix_key AND c.size = k.size
    QUALIFY row_number() OVER (PARTITION BY k.prefix_key, k.size ORDER BY k.text_number) <= 2 * $largest_family
),

counted AS (
    SELECT
        a.text_number, len(t.terms) + len(u.terms) AS total,
        count_shared(t.terms, u.terms, $longest) AS shared
    FROM asked AS a
    INNER JOIN samples AS s ON s.prefix_key = a.crowd.prefix_key AND s.size = a.crowd.size
    INNER JOIN duplicate_texts AS t ON t.namespace_id = $namespace_id AND t.text_number = a.text_number
    INNER JOIN duplicate_texts AS u ON u.namespace_id = $namespace_id AND u.text_number = s.text_number
    WHERE s.text_number <> a.text_number
)

SELECT text_number, count(*) AS partners
FROM counted
WHERE is_alike(shared, total)
GROUP BY text_number
HAVING count(*) > $largest_family

-- name: drop_keys_of_families
DELETE FROM prefix_keys WHERE text_number IN (SELECT text_number FROM families)

-- name: drop_questions_of_families
DELETE FROM questions WHERE text_number IN (SELECT text_number FROM families)

-- name: count_candidates
SELECT coalesce(sum(g.texts), 0)::BIGINT
FROM questions AS q
INNER JOIN (
    SELECT prefix_key, size, count(*) AS texts
    FROM prefix_keys
    GROUP BY prefix_key, size
) AS g ON g.prefix_key = q.prefix_key AND g.size = q.partner_size

-- name: gather_pairs
-- Pairs that pass the exact test; a common token counts once in either text.
CREATE OR REPLACE TEMP TABLE pairs AS
WITH candidates AS (
    SELECT DISTINCT q.text_number AS one, k.text_number AS other
    FROM questions AS q
    INNER JOIN prefix_keys AS k ON k.prefix_key = q.prefix_key AND k.size = q.partner_size
    WHERE k.farthest >= q.size AND (q.size > k.size OR q.text_number > k.text_number)
),

counted AS (
    SELECT
        c.one, c.other, count_shared(a.terms, b.terms, $longest) AS shared,
        len(a.terms) + len(b.terms) AS total
    FROM candidates AS c
    INNER JOIN duplicate_texts AS a ON a.namespace_id = $namespace_id AND a.text_number = c.one
    INNER JOIN duplicate_texts AS b ON b.namespace_id = $namespace_id AND b.text_number = c.other
)

SELECT one, other, shared, total - shared AS in_either
FROM counted
WHERE is_alike(shared, total)

-- name: gather_families
INSERT INTO families
SELECT text_number, count(*) AS partners
FROM (SELECT one AS text_number FROM pairs UNION ALL SELECT other FROM pairs)
GROUP BY text_number
HAVING count(*) > $largest_family

-- name: list_families
SELECT m.memory_id, f.partners
FROM families AS f
INNER JOIN members AS m ON m.text_number = f.text_number
ORDER BY m.created_at, m.memory_id

-- name: drop_families
DELETE FROM pairs
WHERE one IN (SELECT text_number FROM families) OR other IN (SELECT text_number FROM families)

-- name: count_pairs
SELECT count(*) FROM pairs

-- name: list_pairs
-- The older memory of each pair first.
SELECT
    CASE WHEN (a.created_at, a.memory_id) < (b.created_at, b.memory_id) THEN a.memory_id ELSE b.memory_id END AS memory_id,
    CASE WHEN (a.created_at, a.memory_id) < (b.created_at, b.memory_id) THEN b.memory_id ELSE a.memory_id END AS partner_id,
    p.shared, p.in_either AS "union"
FROM pairs AS p
INNER JOIN members AS a ON a.text_number = p.one
INNER JOIN members AS b ON b.text_number = p.other
ORDER BY greatest((a.created_at, a.memory_id), (b.created_at, b.memory_id)), memory_id
