-- name: count_visible
SELECT count(*)
FROM memories
WHERE namespace_id = $namespace_id AND status = 'active' AND (expires_at IS NULL OR expires_at > $now)

-- name: list_visible
SELECT id
FROM memories
WHERE namespace_id = $namespace_id AND status = 'active' AND (expires_at IS NULL OR expires_at > $now)
ORDER BY created_at, id

-- name: read_facts
SELECT
    id AS memory_id, revision, status, pinned, importance, salience, access_count, last_accessed_at,
    expires_at, tombstoned_at, text_number, updated_at
FROM memories
WHERE namespace_id = $namespace_id AND id IN (SELECT unnest($ids::TEXT[]))
ORDER BY id

-- name: read_lineage_texts
-- A revision is 'merged' where a merge made it; whoever else writes the text starts the lineage anew.
-- A loser may have been a canonical memory before: what its own merges replaced is in the lineage.
WITH asked AS (
    SELECT unnest($ids::TEXT[]) AS id
),

members AS (
    SELECT id FROM asked
    UNION
    SELECT target_id
    FROM relations
    WHERE namespace_id = $namespace_id
        AND kind = 'supersedes'
        AND until_revision IS NULL
        AND memory_id IN (SELECT id FROM asked)
),

steps AS (
    SELECT id AS memory_id, revision, revision_kind, kind, content
    FROM memories
    WHERE namespace_id = $namespace_id AND id IN (SELECT id FROM members)
    UNION ALL
    SELECT memory_id, revision, revision_kind, kind, content
    FROM revisions
    WHERE namespace_id = $namespace_id AND memory_id IN (SELECT id FROM members)
),

merges AS (
    SELECT
        memory_id, revision, kind, content,
        lag({'kind': kind, 'content': content}) OVER (PARTITION BY memory_id ORDER BY revision) AS replaced
    FROM steps
    QUALIFY revision_kind = 'merged'
        AND revision > coalesce(
            max(revision) FILTER (revision_kind IN ('refined', 'corrected')) OVER (PARTITION BY memory_id), 0
        )
),

losers AS (
    SELECT g.memory_id AS head_id, r.target_id AS memory_id
    FROM merges AS g
    INNER JOIN relations AS r
        ON r.namespace_id = $namespace_id
        AND r.memory_id = g.memory_id
        AND r.since_revision = g.revision
        AND r.kind = 'supersedes'
        AND r.until_revision IS NULL
    WHERE g.memory_id IN (SELECT id FROM asked)
)

SELECT l.head_id, t.id AS name, t.kind, t.content
FROM losers AS l
INNER JOIN memories AS t ON t.namespace_id = $namespace_id AND t.id = l.memory_id
UNION ALL
SELECT h.head_id, g.memory_id || '@' || (g.revision - 1)::TEXT, g.replaced.kind, g.replaced.content
FROM (SELECT id AS head_id, id AS memory_id FROM asked UNION SELECT head_id, memory_id FROM losers) AS h
INNER JOIN merges AS g ON g.memory_id = h.memory_id
WHERE g.replaced <> {'kind': g.kind, 'content': g.content}
ORDER BY 1, 2

-- name: read_kinded_texts
SELECT id, kind, content
FROM memories
WHERE namespace_id = $namespace_id AND id IN (SELECT unnest($ids::TEXT[]))

-- name: read_text_facts
SELECT id, text_number, kind, expires_at
FROM memories
WHERE namespace_id = $namespace_id
    AND status = 'active'
    AND text_number IS NOT NULL
    AND id IN (SELECT unnest($ids::TEXT[]))

-- name: find_kept_apart
SELECT one, other, bool_or(is_related), bool_or(NOT is_related)
FROM (
    SELECT least(memory_id, target_id) AS one, greatest(memory_id, target_id) AS other, true AS is_related
    FROM relations
    WHERE namespace_id = $namespace_id
        AND until_revision IS NULL
        AND kind <> 'related_to'
        AND memory_id IN (SELECT unnest($ids::TEXT[]))
        AND target_id IN (SELECT unnest($ids::TEXT[]))
    UNION ALL
    SELECT k.memory_id, k.partner_id, false
    FROM kept_apart AS k
    INNER JOIN memories AS m ON m.namespace_id = k.namespace_id AND m.id = k.memory_id
    INNER JOIN memories AS p ON p.namespace_id = k.namespace_id AND p.id = k.partner_id
    WHERE k.namespace_id = $namespace_id
        AND k.memory_id IN (SELECT unnest($ids::TEXT[]))
        AND k.partner_id IN (SELECT unnest($ids::TEXT[]))
        AND k.content_digest = sha256(m.content)
        AND k.partner_digest = sha256(p.content)
)
GROUP BY one, other
ORDER BY one, other
