-- name: insert_sources
INSERT INTO merge_sources BY NAME
SELECT namespace_id, memory_id, revision, position, source_id, losses
FROM incoming

-- name: read_sources
SELECT source_id
FROM merge_sources
WHERE namespace_id = $namespace_id AND memory_id = $memory_id
ORDER BY revision, position
