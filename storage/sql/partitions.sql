-- name: insert_partition
INSERT INTO partitions (
    partition, namespace_id, generation, binding, embedding_digest, pointer_uuid, revision, phase, record_count,
    byte_count
)
SELECT $partition, $namespace_id, $generation, $binding, $embedding_digest, $pointer_uuid, 0, 'empty', 0, 0
WHERE NOT EXISTS (SELECT 1 FROM partitions WHERE partition = $partition)

-- name: insert_index_pointer
INSERT INTO index_pointer (pointer_uuid, revision)
SELECT $pointer_uuid, 0
WHERE NOT EXISTS (SELECT 1 FROM index_pointer)

-- name: read_pointer
SELECT
    p.revision, p.phase, p.publication_id, p.receipt_id, p.record_count, p.byte_count, p.pointer_uuid,
    u.vector_table, u.record_profile, u.store_history, (p.phase <> 'empty')::INTEGER AS partition_count
FROM partitions AS p
LEFT JOIN publications AS u ON u.publication_id = p.publication_id
WHERE p.partition = $partition

-- name: read_index_pointer
-- The same of the whole index, which is what cas_scope=index compares.
SELECT
    i.revision, i.pointer_uuid,
    (SELECT count(*) FROM partitions WHERE phase <> 'empty') AS partition_count,
    (SELECT coalesce(sum(byte_count), 0)::BIGINT FROM partitions) AS byte_count
FROM index_pointer AS i

-- name: list_served
SELECT p.publication_id, u.vector_table
FROM partitions AS p
INNER JOIN publications AS u ON u.publication_id = p.publication_id
ORDER BY p.partition

-- name: move_pointer
-- Compare-and-swap: one row, or another writer was first. A NULL publication empties the pointer.
UPDATE partitions
SET
    revision = revision + 1, publication_id = $publication_id, phase = $phase, receipt_id = NULL,
    record_count = $record_count, byte_count = $byte_count
WHERE partition = $partition AND revision = $expected

-- name: hold_pointer
-- The same check for a change that leaves an empty pointer as it is.
UPDATE partitions SET receipt_id = NULL WHERE partition = $partition AND revision = $expected

-- name: move_index_pointer
UPDATE index_pointer SET revision = revision + 1 WHERE revision = $expected

-- name: prove_pointer
UPDATE partitions
SET phase = CASE WHEN publication_id IS NULL THEN 'empty' ELSE 'verified' END, receipt_id = $receipt_id
WHERE partition = $partition AND revision = $expected AND publication_id IS NOT DISTINCT FROM $publication_id

-- name: read_serving
SELECT s.partition, p.generation, p.binding
FROM serving AS s
INNER JOIN partitions AS p ON p.partition = s.partition
WHERE s.namespace_id = $namespace_id

-- name: insert_serving
INSERT INTO serving (namespace_id, partition, switched_at)
SELECT $namespace_id, $partition, $clock
WHERE NOT EXISTS (SELECT 1 FROM serving WHERE namespace_id = $namespace_id)

-- name: switch_serving
UPDATE serving
SET partition = $partition, switched_at = $clock
WHERE namespace_id = $namespace_id AND partition <> $partition

-- name: list_generations
-- Every partition of a namespace with its size, so that what nobody serves any more is seen.
SELECT
    p.partition, p.namespace_id, p.generation, p.phase, p.record_count, p.byte_count,
    s.partition IS NOT NULL AS is_serving
FROM partitions AS p
LEFT JOIN serving AS s ON s.partition = p.partition
WHERE $namespace_id::INTEGER IS NULL OR p.namespace_id = $namespace_id
ORDER BY p.partition

-- name: fence_source
-- The publisher and every writer of memories move the same counter; a source that moved on is seen.
UPDATE namespaces
SET change_fence = change_fence + 1
WHERE namespace_id = $namespace_id AND ($source_token::BIGINT IS NULL OR sequence = $source_token)
