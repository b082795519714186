-- name: read_ancestry
-- Every edge from a superseding row to a superseded row that a head reaches through such rows.
-- UNION ends on a cycle.
WITH RECURSIVE edges AS (
    SELECT r.memory_id AS successor_id, r.target_id AS ancestor_id
    FROM relations AS r
    INNER JOIN memories AS m ON m.namespace_id = r.namespace_id AND m.id = r.target_id
    WHERE r.namespace_id = $namespace_id
        AND r.kind = 'supersedes'
        AND r.until_revision IS NULL
        AND m.status = 'superseded'
        AND r.memory_id <> r.target_id
),
reached AS (
    SELECT e.ancestor_id
    FROM edges AS e
    INNER JOIN incoming AS h ON h.memory_id = e.successor_id
    UNION
    SELECT e.ancestor_id
    FROM reached AS a
    INNER JOIN edges AS e ON e.successor_id = a.ancestor_id
)
SELECT
    e.successor_id,
    m.id AS memory_id, m.revision AS expected_revision, m.status, m.pinned, m.importance, m.salience,
    m.access_count, m.last_accessed_at, m.expires_at, m.tombstoned_at
FROM edges AS e
INNER JOIN reached AS a ON a.ancestor_id = e.ancestor_id
INNER JOIN memories AS m ON m.namespace_id = $namespace_id AND m.id = e.ancestor_id
ORDER BY m.id, e.successor_id
