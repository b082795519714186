-- name: list_superseded
-- Memories that another one superseded, and not by taking them in: a merge makes the revision kind
-- 'merged', and a merge of the successor only moves the edge. `superseded_by`: who does so now.
SELECT m.id AS memory_id, m.kind, m.content, min(now_by.memory_id) AS superseded_by
FROM memories AS m
INNER JOIN relations AS r
    ON r.namespace_id = m.namespace_id AND r.target_id = m.id AND r.kind = 'supersedes'
LEFT JOIN memories AS s
    ON s.namespace_id = r.namespace_id AND s.id = r.memory_id AND s.revision = r.since_revision
LEFT JOIN revisions AS h
    ON h.namespace_id = r.namespace_id AND h.memory_id = r.memory_id AND h.revision = r.since_revision
INNER JOIN relations AS now_by
    ON now_by.namespace_id = m.namespace_id
    AND now_by.target_id = m.id
    AND now_by.kind = 'supersedes'
    AND now_by.until_revision IS NULL
WHERE m.namespace_id = $namespace_id
    AND m.status = 'superseded'
    AND coalesce(s.revision_kind, h.revision_kind, 'merged') <> 'merged'
GROUP BY m.id, m.kind, m.content
ORDER BY m.id

-- name: find_siblings
-- Active texts that reach a Jaccard of 43/50 with a superseded one. Of its n - ceil(43n/50) + 2
-- rarest tokens they share at least two, if it has as many (spec/consolidate.md R61, DESIGN 10.15).
-- Whoever supersedes it, or a successor of that, is no sibling.
WITH RECURSIVE asked AS (
    SELECT memory_id AS superseded_id, len(terms) AS size, unnest(terms) AS term
    FROM incoming
),

postings AS (
    SELECT m.id AS memory_id, len(t.terms) AS size, unnest(t.terms) AS term
    FROM memories AS m
    INNER JOIN duplicate_texts AS t ON t.namespace_id = m.namespace_id AND t.text_number = m.text_number
    WHERE m.namespace_id = $namespace_id
        AND t.profile = $profile
        AND m.status = 'active'
        AND (m.expires_at IS NULL OR m.expires_at > $now)
),

frequencies AS (
    SELECT term, count(*) AS texts
    FROM postings
    WHERE term IN (SELECT a.term FROM asked AS a)
    GROUP BY term
),

ranked AS (
    SELECT
        a.superseded_id, a.size, a.term,
        row_number() OVER (PARTITION BY a.superseded_id ORDER BY coalesce(f.texts, 0), a.term) AS place
    FROM asked AS a
    LEFT JOIN frequencies AS f ON f.term = a.term
),

candidates AS (
    SELECT r.superseded_id, p.memory_id
    FROM ranked AS r
    INNER JOIN postings AS p ON p.term = r.term
    WHERE r.place <= r.size - least_shared(r.size) + 2
        AND p.size BETWEEN least_shared(r.size) AND largest_partner(r.size)
    GROUP BY r.superseded_id, p.memory_id, r.size
    HAVING count(*) >= least(2, r.size)
),

successors AS (
    SELECT r.target_id AS superseded_id, r.memory_id
    FROM relations AS r
    WHERE r.namespace_id = $namespace_id AND r.kind = 'supersedes' AND r.until_revision IS NULL
        AND r.target_id IN (SELECT i.memory_id FROM incoming AS i)
    UNION
    SELECT s.superseded_id, r.memory_id
    FROM successors AS s
    INNER JOIN relations AS r ON r.target_id = s.memory_id
    WHERE r.namespace_id = $namespace_id AND r.kind = 'supersedes' AND r.until_revision IS NULL
)

SELECT c.superseded_id, m.id AS memory_id, m.kind, m.content
FROM candidates AS c
INNER JOIN incoming AS i ON i.memory_id = c.superseded_id
INNER JOIN memories AS m ON m.namespace_id = $namespace_id AND m.id = c.memory_id
INNER JOIN duplicate_texts AS t ON t.namespace_id = m.namespace_id AND t.text_number = m.text_number
WHERE is_alike(count_shared(i.terms, t.terms, $longest), len(i.terms) + len(t.terms))
    AND NOT EXISTS (
        SELECT 1
        FROM successors AS s
        WHERE s.superseded_id = c.superseded_id AND s.memory_id = c.memory_id
    )
QUALIFY row_number() OVER (PARTITION BY c.superseded_id ORDER BY m.id) <= $largest_family
ORDER BY c.superseded_id, m.id
