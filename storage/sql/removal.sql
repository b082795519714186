-- name: mark_removed
CREATE OR REPLACE TEMP TABLE removed AS
SELECT m.id AS memory_id, m.revision
FROM memories AS m
WHERE m.namespace_id = $namespace_id AND m.id IN (SELECT unnest($ids::TEXT[]))

-- name: collect_neighbours
CREATE OR REPLACE TEMP TABLE neighbours AS
SELECT DISTINCT r.memory_id
FROM relations AS r
INNER JOIN removed AS g ON g.memory_id = r.target_id
WHERE r.namespace_id = $namespace_id
    AND r.until_revision IS NULL
    AND NOT EXISTS (SELECT 1 FROM removed AS o WHERE o.memory_id = r.memory_id)

-- name: keep_neighbours
INSERT INTO revisions BY NAME
SELECT
    m.namespace_id, m.id AS memory_id, m.revision, m.revision_kind, m.kind, m.status, m.content,
    m.confidence, m.importance, m.salience, m.tags, m.metadata, m.pinned, m.updated_at, m.expires_at
FROM memories AS m
INNER JOIN neighbours AS b ON b.memory_id = m.id
WHERE m.namespace_id = $namespace_id

-- name: end_edges
UPDATE relations AS r
SET until_revision = m.revision + 1
FROM memories AS m
WHERE r.namespace_id = $namespace_id
    AND m.namespace_id = r.namespace_id
    AND m.id = r.memory_id
    AND r.until_revision IS NULL
    AND r.target_id IN (SELECT g.memory_id FROM removed AS g)
    AND r.memory_id IN (SELECT b.memory_id FROM neighbours AS b)

-- name: step_neighbours
UPDATE memories
SET revision = revision + 1, revision_kind = 'relation_changed', updated_at = greatest($now, updated_at)
WHERE namespace_id = $namespace_id AND id IN (SELECT b.memory_id FROM neighbours AS b)

-- name: delete_memories
DELETE FROM memories
USING removed AS g
WHERE memories.namespace_id = $namespace_id AND memories.id = g.memory_id AND memories.revision = g.revision

-- name: count_removed
SELECT count(*) FROM removed

-- name: count_neighbours
SELECT count(*) FROM neighbours

-- name: delete_revisions
DELETE FROM revisions WHERE namespace_id = $namespace_id AND memory_id IN (SELECT g.memory_id FROM removed AS g)

-- name: delete_evidence
DELETE FROM evidence WHERE namespace_id = $namespace_id AND memory_id IN (SELECT g.memory_id FROM removed AS g)

-- name: delete_relations
DELETE FROM relations WHERE namespace_id = $namespace_id AND memory_id IN (SELECT g.memory_id FROM removed AS g)

-- name: delete_access_events
DELETE FROM access_events WHERE namespace_id = $namespace_id AND memory_id IN (SELECT g.memory_id FROM removed AS g)

-- name: delete_merge_sources
DELETE FROM merge_sources WHERE namespace_id = $namespace_id AND memory_id IN (SELECT g.memory_id FROM removed AS g)
