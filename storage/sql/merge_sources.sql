-- name: insert_sources
INSERT INTO merge_sources BY NAME
SELECT $namespace_id AS namespace_id, memory_id, revision, position, source_id, losses
FROM incoming

-- name: read_sources
SELECT memory_id, source_id
FROM merge_sources
WHERE namespace_id = $namespace_id AND memory_id IN (SELECT unnest($ids::TEXT[]))
ORDER BY memory_id, revision, position

-- name: drop_sources
DELETE FROM merge_sources
WHERE namespace_id = $namespace_id
    AND memory_id = $memory_id
    AND source_id IN (SELECT unnest($ids::TEXT[]))
