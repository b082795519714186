-- name: list_pointers
SELECT p.partition, p.publication_id, u.vector_table, p.record_count
FROM partitions AS p
LEFT JOIN publications AS u ON u.publication_id = p.publication_id
WHERE p.publication_id IS NOT NULL
ORDER BY p.partition

-- name: list_orphan_stagings
SELECT u.publication_id
FROM publications AS u
WHERE u.phase IN ('staging', 'staged') AND NOT EXISTS (
    SELECT 1 FROM leases AS l WHERE l.holder = u.run_id AND l.expires_at > $clock
)
ORDER BY u.publication_id

-- name: give_up_staging
UPDATE publications
SET phase = 'abandoned', ended_at = $clock
WHERE publication_id = $publication_id AND phase IN ('staging', 'staged') AND NOT EXISTS (
    SELECT 1 FROM leases AS l WHERE l.holder = publications.run_id AND l.expires_at > $clock
)

-- name: count_uncovered
SELECT coalesce(sum(c.active - c.embedded), 0)::BIGINT
FROM index_coverage AS c
WHERE c.namespace_id IN (SELECT namespace_id FROM serving)
