-- name: count_visible
SELECT count(*)
FROM memories
WHERE namespace_id = $namespace_id AND status = 'active' AND (expires_at IS NULL OR expires_at > $now)

-- name: read_facts
SELECT
    id AS memory_id, revision, status, pinned, importance, salience, access_count, last_accessed_at,
    expires_at, tombstoned_at
FROM memories
WHERE namespace_id = $namespace_id AND id IN (SELECT unnest($ids::TEXT[]))
ORDER BY id

-- name: read_lineage_texts
-- A revision is 'merged' where a merge made it; whoever else writes the text starts the lineage anew.
WITH steps AS (
    SELECT id AS memory_id, revision, revision_kind, content
    FROM memories
    WHERE namespace_id = $namespace_id AND id IN (SELECT unnest($ids::TEXT[]))
    UNION ALL
    SELECT memory_id, revision, revision_kind, content
    FROM revisions
    WHERE namespace_id = $namespace_id AND memory_id IN (SELECT unnest($ids::TEXT[]))
),

merges AS (
    SELECT
        memory_id, revision, content,
        lag(content) OVER (PARTITION BY memory_id ORDER BY revision) AS replaced
    FROM steps
    QUALIFY revision_kind = 'merged'
        AND revision > coalesce(
            max(revision) FILTER (revision_kind IN ('refined', 'corrected')) OVER (PARTITION BY memory_id), 0
        )
)

SELECT g.memory_id, t.id AS name, t.content
FROM merges AS g
INNER JOIN relations AS r
    ON r.namespace_id = $namespace_id
    AND r.memory_id = g.memory_id
    AND r.since_revision = g.revision
    AND r.kind = 'supersedes'
    AND r.until_revision IS NULL
INNER JOIN memories AS t ON t.namespace_id = $namespace_id AND t.id = r.target_id
UNION ALL
SELECT memory_id, memory_id || '@' || (revision - 1)::TEXT, replaced
FROM merges
WHERE replaced <> content
ORDER BY 1, 2

-- name: read_contents
SELECT id, content
FROM memories
WHERE namespace_id = $namespace_id AND id IN (SELECT unnest($ids::TEXT[]))
