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
-- two keys of 64 bits tell texts apart. Memories that stand for others, are related to others or
-- declare a slot represent nobody, nor does anybody represent them. Only texts whose fingerprint
-- another one has are grouped: most have none.
CREATE OR REPLACE TEMP TABLE members AS
WITH alone AS (
    SELECT memory_id
    FROM relations
    WHERE namespace_id = $namespace_id AND until_revision IS NULL AND kind <> 'related_to'
    UNION
    SELECT unnest([memory_id, partner_id])
    FROM kept_apart
    WHERE namespace_id = $namespace_id
),

active AS (
    SELECT
        m.id AS memory_id, m.created_at, m.kind, m.text_number, m.expires_at, t.fingerprint_key,
        t.text_key, len(t.terms) AS size,
        CASE
            WHEN contains(m.metadata, '"slot"') THEN nullif(trim(json_extract_string(m.metadata, '$.slot')), '')
        END AS slot
    FROM memories AS m
    INNER JOIN duplicate_texts AS t ON t.namespace_id = m.namespace_id AND t.text_number = m.text_number
    WHERE m.namespace_id = $namespace_id
        AND t.profile = $profile
        AND m.status = 'active'
        AND (m.expires_at IS NULL OR m.expires_at > $now)
        AND len(t.terms) > 0
),

shared AS (
    SELECT fingerprint_key
    FROM active
    GROUP BY fingerprint_key
    HAVING count(*) > 1
),

copies AS (
    SELECT
        a.memory_id, first_value(a.text_number) OVER same AS text_number,
        first_value(a.memory_id) OVER same AS representative_id
    FROM active AS a
    SEMI JOIN shared AS s ON s.fingerprint_key = a.fingerprint_key
    ANTI JOIN alone AS o ON o.memory_id = a.memory_id
    WHERE a.slot IS NULL
    WINDOW same AS (
        PARTITION BY a.kind, a.fingerprint_key, a.text_key, a.expires_at
        ORDER BY a.created_at, a.memory_id
    )
)

SELECT
    a.memory_id, a.created_at, a.kind, a.text_number, a.expires_at, a.fingerprint_key, a.size, a.slot,
    coalesce(c.text_number, a.text_number) AS represented_by,
    coalesce(c.representative_id, a.memory_id) AS representative_id
FROM active AS a
LEFT JOIN copies AS c ON c.memory_id = a.memory_id

-- name: list_copies
SELECT memory_id, representative_id
FROM members
WHERE text_number <> represented_by
ORDER BY created_at, memory_id

-- name: gather_exact_pairs
-- Representatives that share a fingerprint; a group that is larger than a family is left out.
CREATE OR REPLACE TEMP TABLE exact_pairs AS
WITH twins AS (
    SELECT text_number, fingerprint_key
    FROM members
    WHERE text_number = represented_by
    QUALIFY count(*) OVER (PARTITION BY fingerprint_key) BETWEEN 2 AND $largest_family + 1
)

SELECT a.text_number AS one, b.text_number AS other
FROM twins AS a
INNER JOIN twins AS b ON b.fingerprint_key = a.fingerprint_key AND b.text_number > a.text_number

-- name: gather_exact_families
INSERT INTO families
SELECT text_number, count(*) OVER (PARTITION BY fingerprint_key) - 1 AS partners
FROM members
WHERE text_number = represented_by
QUALIFY partners > $largest_family

-- name: gather_keys_of_members
-- The further keys of representatives, with what texts under one key differ in (R33).
CREATE OR REPLACE TEMP TABLE member_keys AS
SELECT m.text_number, k.key_kind, k.key_hash, k.value_hash
FROM members AS m
INNER JOIN duplicate_keys AS k ON k.namespace_id = $namespace_id AND k.text_number = m.text_number
WHERE m.text_number = m.represented_by
UNION ALL
SELECT text_number, 'declared', (hash(slot) // 2)::BIGINT, fingerprint_key
FROM members
WHERE slot IS NOT NULL

-- name: gather_series
-- Keys with many values: one line in the report, and no pair.
CREATE OR REPLACE TEMP TABLE series AS
SELECT key_kind, key_hash, count(*) AS texts, min(text_number) AS text_number
FROM member_keys
WHERE key_kind <> 'polarity'
GROUP BY key_kind, key_hash
HAVING count(DISTINCT value_hash) > $most_values

-- name: count_key_pairs
SELECT coalesce(sum(texts * (texts - 1) // 2), 0)::BIGINT
FROM (
    SELECT count(*) AS texts
    FROM member_keys AS k
    ANTI JOIN series AS s ON s.key_kind = k.key_kind AND s.key_hash = k.key_hash
    GROUP BY k.key_kind, k.key_hash
)

-- name: gather_key_pairs
CREATE OR REPLACE TEMP TABLE key_pairs AS
WITH keyed AS (
    SELECT k.text_number, k.key_kind, k.key_hash, k.value_hash
    FROM member_keys AS k
    ANTI JOIN series AS s ON s.key_kind = k.key_kind AND s.key_hash = k.key_hash
)

SELECT a.text_number AS one, b.text_number AS other, bool_or(a.key_kind = 'declared') AS is_declared
FROM keyed AS a
INNER JOIN keyed AS b
    ON b.key_kind = a.key_kind
    AND b.key_hash = a.key_hash
    AND b.value_hash <> a.value_hash
    AND b.text_number > a.text_number
WHERE $is_within
GROUP BY a.text_number, b.text_number

-- name: gather_found
-- All pairs that a run looks at, whether judged before or not; the smaller text number first.
CREATE OR REPLACE TEMP TABLE found AS
SELECT one, other, bool_or(is_declared) AS is_declared
FROM (
    SELECT least(one, other) AS one, greatest(one, other) AS other, false AS is_declared FROM pairs
    UNION ALL
    SELECT one, other, false FROM exact_pairs
    UNION ALL
    SELECT one, other, is_declared FROM key_pairs
)
GROUP BY one, other

-- name: list_found
SELECT one, other, is_declared
FROM found
ORDER BY one, other

-- name: gather_known
CREATE OR REPLACE TEMP TABLE found AS
SELECT unnest($one::BIGINT[]) AS one, unnest($other::BIGINT[]) AS other, unnest($is_declared::BOOLEAN[]) AS is_declared

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
-- Pairs that pass the exact test; a common token counts once in either text. None: not within bounds.
CREATE OR REPLACE TEMP TABLE pairs AS
WITH candidates AS (
    SELECT DISTINCT q.text_number AS one, k.text_number AS other
    FROM questions AS q
    INNER JOIN prefix_keys AS k ON k.prefix_key = q.prefix_key AND k.size = q.partner_size
    WHERE $is_within
        AND k.farthest >= q.size
        AND (q.size > k.size OR q.text_number > k.text_number)
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

-- name: drop_pairs
DELETE FROM pairs

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

-- name: list_open_pairs
-- Found pairs without a verdict for these kinds.
SELECT f.one, f.other, a.kind AS kind, b.kind AS partner_kind
FROM found AS f
INNER JOIN members AS a ON a.text_number = f.one
INNER JOIN members AS b ON b.text_number = f.other
ANTI JOIN judged_pairs AS j
    ON j.namespace_id = $namespace_id
    AND j.text_number = f.one
    AND j.partner_number = f.other
    AND j.kind = a.kind
    AND j.partner_kind = b.kind
ORDER BY f.one, f.other

-- name: list_verdicts
-- What is known of the pairs, the older memory first. Passing ones that their expiry, an edge or a
-- mark keeps apart are similar (R41); refused ones of a series are left out (R33).
WITH judged AS (
    SELECT
        f.one, f.other, j.result, j.reasons, j.conflict_class, j.shared, j.union_size,
        f.is_declared AND a.fingerprint_key <> b.fingerprint_key AND a.slot = b.slot AS is_declared,
        (a.created_at, a.memory_id) > (b.created_at, b.memory_id) AS is_turned,
        a.memory_id AS one_id, b.memory_id AS other_id, a.created_at AS one_at, b.created_at AS other_at,
        a.expires_at IS DISTINCT FROM b.expires_at AS differs_in_expiry
    FROM found AS f
    INNER JOIN members AS a ON a.text_number = f.one
    INNER JOIN members AS b ON b.text_number = f.other
    INNER JOIN judged_pairs AS j
        ON j.namespace_id = $namespace_id
        AND j.text_number = f.one
        AND j.partner_number = f.other
        AND j.kind = a.kind
        AND j.partner_kind = b.kind
    WHERE j.result <> 'none' OR f.is_declared
),

serial AS (
    SELECT DISTINCT k.text_number AS one, l.text_number AS other
    FROM judged AS d
    INNER JOIN member_keys AS k ON k.text_number = d.one
    INNER JOIN series AS s ON s.key_kind = k.key_kind AND s.key_hash = k.key_hash
    INNER JOIN member_keys AS l
        ON l.text_number = d.other AND l.key_kind = k.key_kind AND l.key_hash = k.key_hash
    WHERE d.result NOT IN ('exact', 'near')
),

edges AS (
    SELECT DISTINCT memory_id, target_id
    FROM relations
    WHERE namespace_id = $namespace_id AND until_revision IS NULL AND kind <> 'related_to'
),

marked AS (
    SELECT k.memory_id, k.partner_id
    FROM kept_apart AS k
    INNER JOIN memories AS m ON m.namespace_id = k.namespace_id AND m.id = k.memory_id
    INNER JOIN memories AS p ON p.namespace_id = k.namespace_id AND p.id = k.partner_id
    WHERE k.namespace_id = $namespace_id
        AND k.content_digest = sha256(m.content)
        AND k.partner_digest = sha256(p.content)
),

explained AS (
    SELECT
        CASE WHEN d.is_turned THEN d.other_id ELSE d.one_id END AS memory_id,
        CASE WHEN d.is_turned THEN d.one_id ELSE d.other_id END AS partner_id,
        CASE WHEN d.is_turned THEN d.one_at ELSE d.other_at END AS partner_at,
        CASE
            WHEN d.is_declared AND d.result IN ('none', 'similar') THEN 'conflict'
            ELSE d.result
        END AS result,
        CASE
            WHEN d.is_declared AND d.result IN ('none', 'similar') THEN 'declared'
            ELSE d.conflict_class
        END AS conflict_class,
        from_json(d.reasons, '["VARCHAR"]') AS reasons,
        list_filter([
            CASE WHEN d.differs_in_expiry THEN 'expiry' END,
            CASE WHEN e.memory_id IS NOT NULL THEN 'related' END,
            CASE WHEN k.memory_id IS NOT NULL THEN 'kept_apart' END
        ], lambda reason: reason IS NOT NULL) AS kept_by,
        d.shared, d.union_size
    FROM judged AS d
    LEFT JOIN edges AS e ON e.memory_id = d.one_id AND e.target_id = d.other_id
    LEFT JOIN marked AS k
        ON k.memory_id = least(d.one_id, d.other_id) AND k.partner_id = greatest(d.one_id, d.other_id)
    ANTI JOIN serial AS s ON s.one = d.one AND s.other = d.other
)

SELECT
    memory_id, partner_id,
    CASE WHEN result IN ('exact', 'near') AND len(kept_by) > 0 THEN 'similar' ELSE result END AS result,
    CASE
        WHEN result IN ('exact', 'near') THEN kept_by
        WHEN result = 'conflict' THEN list_filter(kept_by, lambda reason: reason = 'related')
        ELSE reasons
    END AS reasons,
    conflict_class, shared, union_size
FROM explained
WHERE result <> 'none'
ORDER BY partner_at, partner_id, memory_id

-- name: list_series
SELECT s.key_kind, m.memory_id, s.texts
FROM series AS s
INNER JOIN members AS m ON m.text_number = s.text_number
ORDER BY s.key_kind, m.memory_id

-- name: list_serial_keys
SELECT k.text_number, k.key_kind, k.key_hash
FROM member_keys AS k
INNER JOIN series AS s ON s.key_kind = k.key_kind AND s.key_hash = k.key_hash
WHERE k.text_number IN (SELECT unnest($numbers::BIGINT[]))
ORDER BY k.text_number, k.key_kind, k.key_hash

-- name: list_order
-- Members that have to be placed in clusters, in canonical order.
SELECT memory_id
FROM members
WHERE memory_id IN (SELECT unnest($ids::TEXT[]))
ORDER BY created_at, memory_id
